// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A network in five numbers.
#pragma once

namespace kolo::inline v0::simulate {

/// The LogGP model: any two ranks are equally far apart; a rank has one processor, and one port, full duplex.
/// Source: Alexandrov, Ionescu, Schauser, Scheiman, "LogGP: incorporating long messages into the LogP model", SPAA 1995.
struct network {
  double latency = 2e-6;                      ///< L: seconds from port to port
  double overhead = 0.5e-6;                   ///< o: seconds of a processor, per message sent and per message received
  double gap = 0;                             ///< g: seconds that a port rests after a message
  double seconds_per_byte = 1e-10;            ///< G: of a port; 1e-10 is 10 GB/s
  double seconds_per_byte_reduced = 5e-11;    ///< of a processor that combines what has arrived

  /// The start-up time of a message between two idle ranks: alpha in the formulas.
  constexpr double alpha() const { return latency + 2 * overhead; }
};

}  // namespace kolo::inline v0::simulate

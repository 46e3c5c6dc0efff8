// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A network in a few numbers: five if all ranks are equally far apart, more if ranks form nodes.
#pragma once

#include <kolo/config.hpp>

#include <cstdint>
#include <span>

namespace kolo::inline KOLO_ABI::simulate {

/// The connection of two ranks: the four numbers of LogGP.
struct link {
  double latency = 1e-6;            ///< L: seconds from port to port
  double overhead = 0.2e-6;         ///< o: seconds of a processor, per message sent and per message received
  double gap = 0;                   ///< g: seconds that a port is idle after a message
  double seconds_per_byte = 1e-11;  ///< G: of a port; 1e-11 is 100 GB/s
};

/// A rank whose processor is slower in everything: with factor 1.5 by half.
struct straggler {
  int rank = 0;       ///< the slow rank
  double factor = 1;  ///< multiplies the seconds of its processor: overheads, combining, computing
};

/// The LogGP model: a rank has one processor, and one full-duplex port to the network.
///
/// * One level (ranks_per_node 0): any two ranks are equally far apart.
/// * Two levels (ranks_per_node > 0): ranks 0 ... ranks_per_node - 1 are the first node, and so on; the last node may
///   be smaller. Two ranks of a node are joined by `inside`, through a second port of each rank, others by the first
///   four numbers.
/// * Cards (cards_per_node > 0): the ranks of a node have no port of their own to the network, but share this number of
///   cards: with eight ranks and two cards, ranks 0 ... 3 share the first. A card is a port: it serves one message
///   after the other, in each direction.
/// * Noise (noise > 0): every overhead and every latency takes 1 to 1 + noise times as long, uniformly distributed. The
///   factor is a pure function of the seed, the rank, and the number of its earlier delays, so the same seed gives the
///   same seconds on every machine.
///
/// Source: Alexandrov, Ionescu, Schauser, Scheiman, "LogGP: incorporating long messages into the LogP model", SPAA
/// 1995.
struct network {
  double latency = 2e-6;                    ///< L: seconds from port to port
  double overhead = 0.5e-6;                 ///< o: seconds of a processor, per message sent and per message received
  double gap = 0;                           ///< g: seconds that a port is idle after a message
  double seconds_per_byte = 1e-10;          ///< G: of a port; 1e-10 is 10 GB/s
  double seconds_per_byte_reduced = 5e-11;  ///< of a processor that combines received data
  int ranks_per_node = 0;                   ///< ranks; 0: one level
  link inside{};                            ///< between the ranks of a node
  int cards_per_node = 0;                   ///< cards; 0: every rank has its own port
  double noise = 0;                         ///< a fraction: 0.1 is up to a tenth longer
  std::uint64_t seed = 0;                   ///< any number
  std::span<const straggler> stragglers{};  ///< belongs to the caller, and must outlive the simulation

  /// The start-up time of a message between two idle ranks: alpha in the formulas.
  constexpr double alpha() const { return latency + 2 * overhead; }
  /// The link between nodes; without nodes, between all ranks.
  constexpr link outside() const { return {latency, overhead, gap, seconds_per_byte}; }
};

}  // namespace kolo::inline KOLO_ABI::simulate

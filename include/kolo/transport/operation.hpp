// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What waits in a communicator's queue: a collective that was started, or what is asked before one.
#pragma once

#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/transport.hpp>

namespace kolo::inline v0::detail {

enum class advanced { stuck, moved, finished };

/// An operation on a communicator. Operations progress strictly in the order in which they were started.
struct operation {
  advanced (*advance)(operation&) = nullptr;  ///< does what can be done without waiting
  void (*withdraw)(operation&) = nullptr;     ///< after a failure: peers must not touch its views any more. May be null
  std::uint32_t fingerprint = 0;              ///< of what all ranks must agree upon
  std::uint64_t tag = 0;                      ///< what its messages say that they belong to (see engine::next_tag)
  situation now{};                            ///< what it is doing; for the error, should there be one
  flight_subject subject{};                   ///< what it is; for whoever asks what this rank did last
  patience waiting{};
  bool finished = false;
  operation* next = nullptr;
};

}  // namespace kolo::inline v0::detail

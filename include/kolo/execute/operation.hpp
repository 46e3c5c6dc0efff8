// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What waits in a communicator's queue: a collective that was started, or what is asked before one.
#pragma once

#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/transport.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// What a message belongs to: the number of its operation, and 32 bits of what all ranks must agree upon.
constexpr std::uint64_t message_tag(std::uint64_t sequence, std::uint32_t agreed) { return sequence << 32 | agreed; }
constexpr std::uint64_t sequence_of(std::uint64_t tag) { return tag >> 32; }

enum class advanced { stuck, moved, finished };

/// An operation on a communicator. Operations progress strictly in the order in which they were started.
struct operation {
  operation() noexcept {
  }  // member by member: an aggregate of this size is cleared by `rep stos`, which a small call would feel

  advanced (*advance)(operation&) = nullptr;  ///< does what can be done without waiting
  void (*withdraw)(operation&) = nullptr;     ///< after a failure: peers must not touch its views any more. May be null
  std::uint32_t fingerprint = 0;              ///< of what all ranks must agree upon
  std::uint64_t tag = 0;                      ///< what its messages say that they belong to (see engine::number)
  wait_context now{};                         ///< what it is doing; for the error, should there be one
  transport::flight_subject subject{};        ///< what it is; for whoever asks what this rank did last
  backoff waiting{};
  bool finished = false;
  operation* next = nullptr;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What waits in a communicator's queue: a collective that was started, or what is asked before one.
#pragma once

#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/transport.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// What a message belongs to: the number of its operation, and 32 bits of what all ranks must agree upon.
constexpr std::uint64_t message_tag(std::uint64_t sequence, std::uint32_t agreed) { return sequence << 32 | agreed; }
constexpr std::uint64_t sequence_of(std::uint64_t tag) { return tag >> 32; }

/// Of what is between two ranks: the tag that the callers say, a hash of length and type, and the kind, which no
/// collective's has.
constexpr std::uint64_t pair_tag(std::uint32_t user_tag, std::uint32_t hash, kind k) {
  const auto common = k == kind::receive ? kind::send : k;
  return std::uint64_t{user_tag} << 32 | (hash & ~0xffu) | static_cast<std::uint32_t>(common);
}
constexpr bool is_pair_tag(std::uint64_t tag) {
  const auto k = static_cast<kind>(tag & 0xff);
  return k == kind::send || k == kind::exchange;
}

enum class advanced { stuck, moved, finished };

/// An operation on a communicator. Operations progress strictly in the order in which they were started; but what is
/// between two ranks (pair operations), and was started without a collective in between, goes on side by side, in each
/// direction of a pair one after the other.
struct operation {
  operation() noexcept {
  }  // member by member: an aggregate of this size is cleared by `rep stos`, which a small call would feel

  advanced (*advance)(operation&) = nullptr;  ///< does what can be done without waiting
  void (*revoke)(operation&) = nullptr;       ///< after a failure: peers must not touch its views any more. May be null
  std::uint32_t fingerprint = 0;              ///< of what all ranks must agree upon
  std::uint64_t tag = 0;                      ///< what its messages say that they belong to (see engine::number)
  wait_context now{};                         ///< what it is doing; for the error, should there be one
  transport::operation_summary summary{};     ///< what it is; for whoever asks what this rank did last
  backoff waiting{};
  bool finished = false;
  bool has_failed = false;         ///< it goes on no more: it has thrown, or its views are the caller's again
  int peer = -1;                   ///< of a pair operation: the other rank
  bool is_up = false;              ///< of a pair operation: no collective is before it any more
  std::uint64_t flight_index = 0;  ///< of a pair operation: its entry in the flight recorder
  bool is_pair() const { return peer >= 0; }
  operation* next = nullptr;
  const operation* behind = nullptr;  ///< which has more time than this one: whose deadline `waiting` is for
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

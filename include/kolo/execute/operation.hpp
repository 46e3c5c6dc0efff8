// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The elements of a communicator's queue: started collectives, and the comparisons that precede them.
#pragma once

#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/transport.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// The operation that a message belongs to: its number, and 32 bits of what all ranks must agree on.
constexpr std::uint64_t message_tag(std::uint64_t sequence, std::uint32_t agreed) { return sequence << 32 | agreed; }
constexpr std::uint64_t sequence_of(std::uint64_t tag) { return tag >> 32; }

/// For point-to-point messages: the callers' tag, a hash of length and type, and the kind, which no collective has.
constexpr std::uint64_t p2p_tag(std::uint32_t user_tag, std::uint32_t hash, kind k) {
  const auto common = k == kind::receive ? kind::send : k;
  return std::uint64_t{user_tag} << 32 | (hash & ~0xffu) | std::uint32_t(common);
}
constexpr bool is_p2p_tag(std::uint64_t tag) {
  const auto k = static_cast<kind>(tag & 0xff);
  return k == kind::send || k == kind::exchange;
}

enum class advanced { stuck, moved, finished };

/// An operation on a communicator. Operations progress strictly in the order in which they were started; but
/// point-to-point operations (pair operations) that were started without a collective in between progress concurrently,
/// and in order within each direction of a pair.
struct operation {
  operation() noexcept {
  }  // member by member: an aggregate of this size is cleared by `rep stos`, which a small call would feel

  advanced (*advance)(operation&) = nullptr;  ///< does the work that needs no waiting
  void (*revoke)(operation&) = nullptr;       ///< after a failure: peers must not touch its views any more. May be null
  std::uint32_t fingerprint = 0;              ///< of what all ranks must agree on
  std::uint64_t tag = 0;                      ///< the tag of its messages (see engine::number)
  wait_context now{};                         ///< the current wait; for errors
  transport::operation_summary summary{};     ///< for the flight recorder
  backoff waiting{};
  bool finished = false;
  bool has_failed = false;         ///< it, or one before, has thrown, or its views are the caller's again
  bool is_stopped = false;         ///< one before was abandoned: so are all later ones
  int peer = -1;                   ///< of a pair operation: the other rank
  bool is_up = false;              ///< of a pair operation: no collective precedes it any more
  std::uint64_t flight_index = 0;  ///< of a pair operation: its entry in the flight recorder
  bool is_point_to_point() const { return peer >= 0; }
  operation *next = nullptr, *previous = nullptr;
  /// Of a pair operation: the next one in a direction, and the one before.
  struct neighbours {
    operation *next = nullptr, *previous = nullptr;
  } to_peer{}, from_peer{};
  const operation* blocker = nullptr;  ///< an operation with a longer timeout, whose wait `waiting` is for
};

/// Precedes a call in checked mode: an operation.
struct call_check {
  virtual ~call_check() = default;
  virtual operation& as_operation() = 0;
  virtual void restart() = 0;
};

/// A state machine that moves the data of a call.
struct driver {
  driver() = default;
  driver(const driver&) = delete;
  driver& operator=(const driver&) = delete;
  virtual ~driver() = default;
  virtual advanced go_on() = 0;      ///< does the work that needs no waiting
  virtual void revoke() noexcept {}  ///< makes the views the caller's again
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

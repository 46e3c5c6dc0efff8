// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The contents of the memory that the ranks of one communicator share: its header, states, slots and boards.
#pragma once

#include <kolo/core/copy.hpp>
#include <kolo/os/eventcount.hpp>
#include <kolo/os/process.hpp>
#include <kolo/shm/region_shape.hpp>
#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>

namespace kolo::inline KOLO_ABI::detail::shm {

enum class presence : std::uint32_t { expected = 0, here, left, dead };

struct region_header {
  alignas(128) std::atomic<std::uint32_t> failed{0};  ///< the rank that reported the first failure, plus 1; 0: none
  os::eventcount::shared_choice waiters_fence{0};
  alignas(128) std::atomic<std::uint32_t> left{0};
  alignas(128) std::atomic<std::uint32_t> awaited_readers{0};  ///< ranks that wait until all have read their board
  alignas(128) std::atomic<std::uint64_t> successor{0};        ///< region of the survivors; 0: not agreed
  alignas(128) std::atomic<std::uint64_t> growth{0};  ///< how the last `grow` here has ended (see `growth_end`)
  std::atomic<std::uint32_t> is_whole{0};             ///< of a region made by `grow`: all have come to stay
  region_shape shape{};                               ///< for ranks that attach without knowing it
};

/// How a `grow` has ended. The first rank that sets it decides for all members; with the number of this `grow` on the
/// communicator it fits in one word.
struct growth_end {
  errc code{};    ///< errc{}: all have come; peer_failed: the members' communicator has failed meanwhile
  int rank = -1;  ///< the rank that caused the failure

  std::uint64_t as_word(std::uint32_t number) const {
    return std::uint64_t{number} << 32 | std::uint64_t(code) << 24 | std::uint64_t(rank + 1);
  }
  static growth_end of_word(std::uint64_t word) {
    return {static_cast<errc>(word >> 24 & 255), int(word & 0xffffff) - 1};
  }
};

struct alignas(128) rank_state {
  std::atomic<presence> present{presence::expected};
  os::eventcount event;
  os::process_id id{};
  std::atomic<std::uint32_t> wants_shrink{0};
  std::atomic<std::uint64_t> thread{0};  ///< its number, never reused in that process; 0: not come
  bool takes_remote_fences = false;      ///< once it has come
  std::int32_t former = 0;               ///< in a successor region: this rank's number in the old one, plus 1

  /// Whether its process has ended, as another rank's process sees it; its own has not, and is not asked.
  bool has_ended(const os::process_id& asking) const { return id != asking && !os::is_alive(id); }
  /// Whether it has ended or left. False for a rank that is still to come.
  bool is_gone(const os::process_id& asking = {}) const {
    const auto is = present.load(std::memory_order_acquire);
    return is == presence::here ? has_ended(asking) : is != presence::expected;
  }
};

/// A rank writes its failure here before it tries to be the first to report one: no rank waits for one that is stopped
/// while it writes.
struct alignas(128) rank_failure {
  failure what;
};

struct alignas(128) edge_credit {
  std::atomic<std::uint64_t> released{0};
  std::atomic<float> read_time[3]{};  ///< of the ways of one_way_copy, in their order
};

/// Who may touch memory that a piece refers to. The peer must claim it; until then its owner may cancel it. If a peer
/// has stopped after its claim, the owner takes the piece back: `cancelled` if the peer's later writes cannot reach the
/// owner's memory, else `revoked`, until the peer releases it. Either way the peer finds out before it counts the
/// piece.
enum class claim_state : std::uint32_t { offered = 0, claimed, cancelled, revoked };

/// The line of a piece. It holds a payload of at most 96 bytes, or the place of a longer one.
struct alignas(128) slot {
  std::atomic<std::uint64_t> number{0};
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::atomic<claim_state> claimed{claim_state::offered};
  std::uint8_t buffer = 0;     ///< the payload's buffer, counted from 1, also if a reference replaces the payload
  bool has_source = false;     ///< `indirect_of` gives the payload's address
  bool has_reply = false;      ///< the reply is written where `indirect_of` specifies
  std::uint8_t spare : 6 = 0;  ///< the payload lies in this spare buffer of the pair, counted from 1; 0: in none
  core::stored_by stored : 2 {};
  std::byte* payload() { return reinterpret_cast<std::byte*>(this) + 32; }
};

static_assert(offsetof(slot, has_reply) < 31 && sizeof(indirect) <= 128);
static_assert(sizeof(region_header) <= 1024 && sizeof(rank_state) == 128 && sizeof(rank_failure) == 384);

inline region_header& head_of(std::byte* base) { return *reinterpret_cast<region_header*>(base); }
inline rank_state& state_of(std::byte* base, int rank) {
  return reinterpret_cast<rank_state*>(base + region_layout::states_at)[rank];
}
inline failure& failure_of(std::byte* base, const region_layout& s, int rank) {
  return reinterpret_cast<rank_failure*>(base + s.failures_at)[rank].what;
}
/// `from` and `to` differ.
inline std::size_t pair_index(const region_shape& s, int from, int to) {
  return std::size_t(from) * std::size_t(s.ranks - 1) + std::size_t(to - (to > from ? 1 : 0));
}
inline edge_credit& credit_of(std::byte* base, const region_layout& s, int from, int to) {
  return reinterpret_cast<edge_credit*>(base + s.credits_at)[pair_index(s, from, to)];
}
inline transport::flight_recorder& recorder_of(std::byte* base, const region_layout& s, int rank) {
  return reinterpret_cast<transport::flight_recorder*>(base + s.recorders_at)[rank];
}
inline slot& slot_of(std::byte* base, const region_layout& s, int from, int to, std::uint64_t number) {
  return reinterpret_cast<slot*>(base + s.lines_at)[pair_index(s, from, to) * s.lines + number % s.lines];
}
/// Which of a few lines comes next, in turn. (A division for each would take as long as a tenth of a short call.)
class turn {
 public:
  explicit turn(std::uint32_t of = 1) : of_{of} {}
  std::uint32_t now() const { return now_; }
  /// The turn `far_ahead` later, or as far as there are others.
  std::uint32_t later() const { return below(now_ + std::min(of_, far_ahead)); }
  void advance() { now_ = below(now_ + 1); }

 private:
  std::uint32_t below(std::uint32_t n) const { return n < of_ ? n : n - of_; }
  std::uint32_t now_ = 0, of_;
};

/// The n-th of the pair's `slots` buffers, counted from 1, for payloads that do not fit in a line; behind them are the
/// places in its ring.
inline std::byte* buffer_of(std::byte* base, const region_layout& s, int from, int to, std::size_t n) {
  if (n > s.slots)
    return base + s.rings_at + pair_index(s, from, to) * s.ring_bytes() + (n - s.slots - 1) * s.ring_step;
  return base + s.slots_at + (pair_index(s, from, to) * s.slots + n - 1) * s.slot_stride;
}

/// A pair's spare buffers, 0 to 2 * spares - 1; the lower rank owns the first half at first.
inline std::byte* spare_of(std::byte* base, const region_layout& s, int a, int b, std::size_t which) {
  const auto pair = (a < b) == (which < s.spares) ? pair_index(s, a, b) : pair_index(s, b, a);
  return base + s.spares_at + (pair * s.spares + which % s.spares) * s.slot_stride;
}

/// The spare buffers of a pair that one of its ranks owns, the one read last on top.
class spares_owned {
 public:
  spares_owned() = default;
  spares_owned(const region_shape& s, int rank, int peer) {
    for (std::size_t i = 0; i < s.spares; ++i) push(rank < peer ? i : s.spares + i);
  }
  bool is_empty() const { return count_ == 0; }
  std::size_t top() const { return which_[count_ - 1]; }
  std::size_t pop() { return which_[--count_]; }
  void push(std::size_t which) { which_[count_++] = std::uint8_t(which); }

 private:
  std::uint8_t which_[2 * most_spares]{}, count_ = 0;
};

/// The references of a piece, stored at the end of its buffer.
inline indirect& indirect_of(std::byte* buffer, const region_layout& s) {
  return *reinterpret_cast<indirect*>(buffer + s.slot_stride - 128);
}
/// A pair's two halves: even exchanges write to the half of `from`, odd ones to that of `to`.
inline slot& exchange_of(std::byte* base, const region_layout& s, int from, int to, std::uint64_t number) {
  const auto half = number % 2 == 0 ? pair_index(s, from, to) : pair_index(s, to, from);
  return *reinterpret_cast<slot*>(base + s.exchanges_at + half * s.exchange_stride);
}

inline slot& board_line(std::byte* base, const region_layout& s, int rank, std::uint32_t line) {
  return reinterpret_cast<slot*>(base + s.board_lines_at)[std::size_t(rank) * s.board_lines + line];
}
/// For a payload that does not fit in a line.
inline std::byte* board_buffer(std::byte* base, const region_layout& s, int rank, std::uint64_t number) {
  return base + s.board_buffers_at + (std::size_t(rank) * s.board_buffers + number % s.board_buffers) * s.board_stride;
}
/// How many calls on boards that rank has ended. Written only in calls in which not all ranks post: if all post, a
/// rank's next post implies that it has ended the call before.
inline std::atomic<std::uint64_t>& boards_read_by(std::byte* base, const region_layout& s, int rank) {
  return reinterpret_cast<edge_credit*>(base + s.boards_at)[rank].released;
}

/// Zeroed memory already is an unused region, except for the header and the ranks' states. Slots are not touched.
inline void construct_region(std::byte* base, const region_shape& s) {
  std::construct_at(&head_of(base))->shape = s;
  for (int r = 0; r < s.ranks; ++r) std::construct_at(&state_of(base, r));
}

/// Marks a rank that will not come as one that has left. False: it has come, or was marked before.
inline bool does_not_come(std::byte* base, int rank) {
  auto expected = presence::expected;
  const bool is_first = state_of(base, rank).present.compare_exchange_strong(expected, presence::dead);
  if (is_first) head_of(base).left.fetch_add(1, std::memory_order_acq_rel);
  return is_first;
}
/// No rank uses the region any more.
inline bool all_have_left(std::byte* base, int ranks) {
  return head_of(base).left.load(std::memory_order_acquire) >= std::uint32_t(ranks);
}
/// Whether that rank has come, even if it is gone since.
inline bool has_come(std::byte* base, int rank) {
  return state_of(base, rank).present.load(std::memory_order_acquire) != presence::expected;
}
inline void wake_all(std::byte* base, int ranks) {
  for (int r = 0; r < ranks; ++r) state_of(base, r).event.notify_all();
}

}  // namespace kolo::inline KOLO_ABI::detail::shm

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the surviving ranks of a group in shared memory agree which ranks continue, and in which region.
#pragma once

#include <kolo/shm/mapping.hpp>
#include <kolo/shm/new_region.hpp>
#include <kolo/shm/region.hpp>
#include <kolo/transport/progress.hpp>

#include <chrono>
#include <optional>

namespace kolo::inline KOLO_ABI::detail::shm {

/// One rank's part of the agreement. Every survivor asks to shrink; when all ranks that are not gone have asked, or the
/// deadline of the lowest rank that asked has passed, that rank prepares a region for the ranks that have asked, and
/// offers it. A single compare-and-exchange in the old region decides, so whichever rank dies, and when, there is one
/// answer or none; if the maker dies, or is stuck, another rank makes one. A rank that cannot continue, for lack of
/// memory, calls `leave` and counts as gone.
///
/// Whether every survivor arrives in the new region is a separate question (`all_have_come`). Its answer is the same
/// for all, since a rank that is gone does not come any more; unless a deadline passes first: then the new region is
/// broken, and a rank that has arrived there learns it in its first call.
template <Mapping Memory>
class survivors {
 public:
  struct place_of_survivor {
    std::uint64_t region = 0;
    region_shape shape{};
    int rank = -1;  ///< -1: the others continue without this one
  };

  survivors(Memory& memory, std::byte* base, const region_shape& shape, int rank)
      : memory_{memory}, base_{base}, shape_{shape}, rank_{rank} {}

  /// Called once by each rank. Ends at the latest after twice `timeout`, plus the time to make the region.
  /// Errors  out_of_resources: there is no memory for a region.
  place_of_survivor agree(std::chrono::nanoseconds timeout) {
    state_of_rank(rank_).wants_shrink.store(1, std::memory_order_release);
    wake_all(base_, shape_.ranks);
    const auto since = clock::now();
    for (std::uint64_t region = 0;;) {
      const auto epoch = state_of_rank(rank_).event.prepare_wait(head().waiters_fence);
      if ((region = head().successor.load(std::memory_order_acquire)) != 0) return place_in(region);
      if (is_my_turn(clock::now() - since, timeout)) offer();
      else wait(state_of_rank(rank_).event, epoch);
    }
  }

  /// Called by a rank that cannot continue: the others do so without it.
  void leave() {
    state_of_rank(rank_).present.store(presence::left, std::memory_order_release);
    wake_all(base_, shape_.ranks);
    if (!made_) return;
    auto* const next = made_->base.get();
    const auto shape = head_of(next).shape;
    for (int r = 0; r < shape.ranks; ++r)
      if (const int former = state_of(next, r).former - 1; former == rank_ || is_gone(former)) does_not_come(next, r);
    if (all_have_left(next, shape.ranks)) memory_.discard(made_->number, shape.bytes());
  }

  /// Called by a rank that has arrived in `next`: waits for the others. False: one of them never comes, or has not
  /// within `timeout`.
  bool all_have_come(std::byte* next, const place_of_survivor& mine, std::chrono::nanoseconds timeout) const {
    wake_all(next, mine.shape.ranks);
    auto& event = state_of(next, mine.rank).event;
    const auto since = clock::now();
    for (;;) {
      const auto epoch = event.prepare_wait(head_of(next).waiters_fence);
      int missing = 0;
      for (int r = 0; r < mine.shape.ranks && missing == 0; ++r) {  // asks the system about the first one only
        if (has_come(next, r)) continue;
        if (is_gone(state_of(next, r).former - 1)) does_not_come(next, r);
        missing += has_come(next, r) ? 0 : 1;
      }
      if (missing == 0) return none_is_dead(next, mine.shape.ranks);
      if (clock::now() - since > timeout) return false;
      wait(event, epoch);
    }
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds between_polls{20};  // deaths send no notification

  /// Progresses this thread's operations on other communicators meanwhile.
  static void wait(os::eventcount& event, std::uint32_t epoch) {
    const auto pause = transport::pause_between(transport::progress_others(nullptr), between_polls);
    if (pause > pause.zero()) event.wait(epoch, pause);  // else polls at once
  }

  region_header& head() const { return head_of(base_); }
  rank_state& state_of_rank(int r) const { return state_of(base_, r); }
  static bool none_is_dead(std::byte* next, int ranks) {
    for (int r = 0; r < ranks; ++r)
      if (state_of(next, r).present.load(std::memory_order_acquire) == presence::dead) return false;
    return true;
  }

  bool has_asked(int r) const { return state_of_rank(r).wants_shrink.load(std::memory_order_acquire) != 0; }
  bool is_gone(int r) const { return r != rank_ && state_of_rank(r).is_gone(state_of_rank(rank_).id); }

  bool is_my_turn(std::chrono::nanoseconds waited, std::chrono::nanoseconds timeout) const {
    for (int r = 0; r < shape_.ranks; ++r) {
      const bool comes_first = has_asked(r) ? r < rank_ && waited <= 2 * timeout : waited <= timeout;
      if (comes_first && !is_gone(r)) return false;
    }
    return true;
  }

  void offer() {
    std::vector<int> members;
    for (int r = 0; r < shape_.ranks; ++r)
      if (has_asked(r) && !is_gone(r)) members.push_back(r);
    const auto shape = shape_.subset(int(members.size()));
    const new_region made{memory_, shape.bytes()};
    construct_region(made.base.get(), shape);
    for (std::size_t i = 0; i < members.size(); ++i) state_of(made.base.get(), int(i)).former = members[i] + 1;
    std::uint64_t none = 0;
    if (head().successor.compare_exchange_strong(none, made.number, std::memory_order_acq_rel)) {
      made_ = made;
      return wake_all(base_, shape_.ranks);
    }
    memory_.discard(made.number, shape.bytes());
  }

  /// A rank that is not a member may find the region discarded already: all its members have left.
  place_of_survivor place_in(std::uint64_t region) {
    try {
      const auto first_page = memory_.map(region, region_page);
      const int ranks = head_of(first_page.get()).shape.ranks;
      if (ranks < 1 || ranks > shape_.ranks) return {};
      place_of_survivor mine{region, shape_.subset(ranks)};
      const auto base = memory_.map(region, mine.shape.bytes());
      for (int r = 0; r < ranks; ++r) {
        const int former = state_of(base.get(), r).former - 1;
        if (former < 0 || former >= shape_.ranks) return {};
        if (former == rank_) mine.rank = r;
      }
      return mine;
    } catch (const error& e) {
      if (e.code() != errc::mismatch) throw;
      return {};
    }
  }

  Memory& memory_;
  std::byte* base_;
  region_shape shape_;
  int rank_;
  std::optional<new_region> made_{};  ///< the region that this rank has offered
};

}  // namespace kolo::inline KOLO_ABI::detail::shm

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An eventcount: a rank waits until another one notifies it; a futex, and a flag that is set while a rank waits.
#pragma once

#include <kolo/config.hpp>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kolo::inline KOLO_ABI::detail::os {

/// One waiter, many notifiers; lies in memory that all of them share (also between processes). Source: the eventcount
/// of Vyukov, and folly's.
///
/// The waiter prepares to wait, polls once more, and waits. A notifier publishes, then checks whether there is a
/// waiter. Both have a sequentially consistent fence in between, so either the waiter's last poll sees the published
/// data, or the notifier sees the waiter: no wake-up is lost.
///
/// The fence is a tenth of a small call. So a notifier may leave it to the waiters: one that prepares to wait then
/// fences all processes that `take_remote_fences`, by membarrier(2), in some microseconds. (If the system refuses it by
/// then, a wake-up may be lost, and the wait ends at its limit.)
class eventcount {
 public:
  /// Whether the notifiers of a group leave their fence to the waiters; shared by all of them.
  using shared_choice = std::atomic<std::uint32_t>;

  /// From now on waiters in other processes can fence this one. False: the system cannot do it. Takes 5 to 30 ms the
  /// first time if the process has other threads.
  static bool take_remote_fences() { return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED); }
  /// Called by a notifier whose process takes remote fences, before it leaves out its own.
  static void leave_fence_to_waiters(shared_choice& choice) {
    choice.store(1, std::memory_order_relaxed);
    fence();  // a waiter that has not seen the choice is seen by the next `notify`
  }

  /// Called between publishing and `notify`.
  static void fence_before_notify(bool left_to_waiters = false) {
    if (left_to_waiters) std::atomic_signal_fence(std::memory_order_seq_cst);
    else fence();
  }
  void notify() {
    if (has_waiter_.load(std::memory_order_relaxed) != 0) notify_all();
  }

  /// Also if no rank waits: for a failure that every rank must get.
  void notify_all() {
    has_waiter_.store(0, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    ::syscall(SYS_futex, &epoch_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  /// The caller polls once more before it waits with the epoch returned.
  std::uint32_t prepare_wait(const shared_choice& is_left_to_waiters) {
    const std::uint32_t epoch = epoch_.load(std::memory_order_seq_cst);
    has_waiter_.store(1, std::memory_order_relaxed);
    fence();
    if (is_left_to_waiters.load(std::memory_order_relaxed) != 0) membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    return epoch;
  }

  void wait(std::uint32_t epoch, std::chrono::nanoseconds at_most) {
    const timespec limit{at_most.count() / 1'000'000'000, at_most.count() % 1'000'000'000};
    ::syscall(SYS_futex, &epoch_, FUTEX_WAIT, epoch, &limit, nullptr, 0);
    has_waiter_.store(0, std::memory_order_relaxed);
  }

 private:
// g++ warns that its thread sanitizer does not know fences; this one orders no data, only who polls and who waits.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wtsan"
  static void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#pragma GCC diagnostic pop
  static bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::uint32_t> has_waiter_{0};
};

}  // namespace kolo::inline KOLO_ABI::detail::os

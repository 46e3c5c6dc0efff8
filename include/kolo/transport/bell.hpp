// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a rank sleeps until somebody does something for it: a futex with a flag that says whether anybody sleeps.
#pragma once

#include <kolo/config.hpp>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kolo::inline v0::detail {

/// One sleeper, many ringers; lies in memory that all of them share (also between processes).
///
/// The sleeper arms the bell, looks once more, and sleeps. A ringer publishes, then looks whether the bell is armed. Both have a
/// sequentially consistent fence in between, so either the sleeper's last look sees what was published, or the ringer sees
/// the bell armed: no wake-up is lost.
class bell {
 public:
  /// Between whatever was published and `ring`.
  static void before_ringing() { fence(); }
  void ring() {
    if (armed_.load(std::memory_order_relaxed) != 0) wake();
  }

  /// Whether armed or not: for news that must reach everybody.
  void wake() {
    armed_.store(0, std::memory_order_relaxed);
    rings_.fetch_add(1, std::memory_order_seq_cst);
    ::syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  /// The caller must look once more before it sleeps with the number returned.
  std::uint32_t arm() {
    const std::uint32_t rings = rings_.load(std::memory_order_seq_cst);
    armed_.store(1, std::memory_order_relaxed);
    fence();
    return rings;
  }

  void sleep(std::uint32_t rings, std::chrono::nanoseconds at_most) {
    const timespec limit{at_most.count() / 1'000'000'000, at_most.count() % 1'000'000'000};
    ::syscall(SYS_futex, &rings_, FUTEX_WAIT, rings, &limit, nullptr, 0);
    armed_.store(0, std::memory_order_relaxed);
  }

 private:
// g++ warns that its thread sanitizer does not know fences; this one orders no data, only who looks and who sleeps.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wtsan"
  static void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#pragma GCC diagnostic pop

  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<std::uint32_t> armed_{0};
};

/// Cores that the ranks of this host can share, as far as one of them can tell. A rank that is bound to one core is taken to have
/// been bound by a launcher that gave the others cores of their own.
inline int usable_cores() {
  cpu_set_t set;
  const int mine = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return mine > 1 ? mine : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace kolo::inline v0::detail

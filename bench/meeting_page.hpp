// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A page that the ranks of a group share, through which they agree on a common start: the same for every library.
#pragma once

#include "clock.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

namespace kolo_bench {

struct meeting_page {
  alignas(128) std::atomic<std::uint32_t> arrived;
  alignas(128) std::atomic<std::uint64_t> generation;
  std::atomic<std::int64_t> start;  ///< in the cache line of the generation

  static constexpr std::size_t bytes = 4096;

  static meeting_page* map(const std::string& file) {
    const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    void* at = fd < 0 ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) ::close(fd);
    if (at == MAP_FAILED) throw std::runtime_error{"the ranks' meeting page cannot be mapped: " + file};
    return static_cast<meeting_page*>(at);
  }
};

/// How a rank waits for the others: spin on a core of its own; yield if ranks share cores; sleep if the library's threads need the cores.
enum class waiting { spin, yield, sleep };

/// One rank's access to the page.
class meeting {
 public:
  meeting(meeting_page& page, int size, waiting how)
      : page_{page},
        size_{static_cast<std::uint32_t>(size)},
        how_{how},
        lead_{static_cast<std::int64_t>(lead(how) * ticks_per_nanosecond())} {}

  /// Returns at the common start, and its time. The last rank to arrive sets it: late enough that all have read it in time; at once if ranks share cores,
  /// because not all of them can run.
  std::int64_t next() {
    const auto mine = page_.generation.load(std::memory_order_relaxed);
    if (page_.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      page_.arrived.store(0, std::memory_order_relaxed);
      page_.start.store(ticks() + lead_, std::memory_order_relaxed);
      page_.generation.store(mine + 1, std::memory_order_release);
    } else {
      wait_for(mine);
    }
    const auto start = page_.start.load(std::memory_order_relaxed);
    if (how_ == waiting::sleep) wait_once();
    while (ticks() < start) {
    }
    return start;
  }

 private:
  static constexpr double lead(waiting how) { return how == waiting::spin ? 800 : how == waiting::yield ? 0 : 200'000; }

  void wait_once() {
    switch (how_) {
      case waiting::spin: return pause_briefly();
      case waiting::yield: sched_yield(); return;
      case waiting::sleep: std::this_thread::sleep_for(std::chrono::microseconds{20}); return;
    }
  }
  void wait_for(std::uint64_t old) {
    for (std::uint64_t waits = 1; page_.generation.load(std::memory_order_acquire) == old; ++waits) {
      wait_once();
      if (waits % (1 << 14) == 0 && waited_too_long(waits))
        throw std::runtime_error{"the other ranks did not reach the start"};
    }
  }
  bool waited_too_long(std::uint64_t waits) {
    const auto now = std::chrono::steady_clock::now();
    if (waits == 1 << 14) since_ = now;
    return now - since_ > std::chrono::seconds{120};
  }

  meeting_page& page_;
  std::uint32_t size_;
  waiting how_;
  std::int64_t lead_;
  std::chrono::steady_clock::time_point since_{};
};

}  // namespace kolo_bench

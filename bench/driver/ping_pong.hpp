// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The time of a cache line from the first core to the second: measured before and after each burst, because virtual cores move.
#pragma once

#include "../clock.hpp"
#include "statistics.hpp"

#include <atomic>
#include <thread>

namespace kolo_bench {

/// Its second thread sleeps between measurements.
class ping_pong {
 public:
  static constexpr double near_below = 130;  ///< nanoseconds one way

  ping_pong() : cores_{cores()}, partner_{[this] { play(); }} {}
  ping_pong(const ping_pong&) = delete;
  ~ping_pong() {
    asked_.store(-1);
    asked_.notify_one();
    partner_.join();
  }

  /// Nanoseconds one way; 0 with a single core.
  double measure() {
    if (cores_.size() < 2) return 0;
    pin(cores_[0]);
    asked_.store(++game_);
    asked_.notify_one();
    std::vector<double> series;
    for (int s = 0; s < series_; ++s) {
      const auto before = ticks();
      for (int i = 0; i < rallies_; ++i) {
        ball_.store(2 * i + 1, std::memory_order_release);
        while (ball_.load(std::memory_order_acquire) != 2 * i + 2) pause_briefly();
      }
      if (s > 0) series.push_back(static_cast<double>(ticks() - before) / ticks_per_nanosecond() / (2 * rallies_));
    }
    unpin();
    return quantile(series, 0.5);
  }

 private:
  void play() {
    if (cores_.size() < 2) return;
    pin(cores_[1]);
    for (long seen = 0;;) {
      asked_.wait(seen);
      seen = asked_.load();
      if (seen < 0) return;
      for (int s = 0; s < series_; ++s)
        for (int i = 0; i < rallies_; ++i) {
          while (ball_.load(std::memory_order_acquire) != 2 * i + 1) pause_briefly();
          ball_.store(2 * i + 2, std::memory_order_release);
        }
    }
  }
  void unpin() const {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int c : cores_) CPU_SET(c, &set);
    sched_setaffinity(0, sizeof(set), &set);
  }

  static constexpr int series_ = 10, rallies_ = 20;
  std::vector<int> cores_;
  long game_ = 0;
  std::atomic<long> asked_{0};
  alignas(128) std::atomic<int> ball_{0};
  alignas(128) std::thread partner_;
};

}  // namespace kolo_bench

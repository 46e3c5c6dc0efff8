// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations that one thread takes over while another one drives them.
#pragma once

#include <kolo/transport/progress.hpp>

#include <sched.h>

#include <atomic>
#include <thread>

/// Pending until it has been driven once, which lasts until another thread has begun to take it over.
class slow_client : public kolo::detail::transport::progress_client {
 public:
  static kolo::detail::transport::progress work_on(progress_client& d) noexcept {
    return static_cast<slow_client&>(d).work();
  }

  std::atomic<bool> has_progressed{false}, is_wanted{false};
  bool has_ended = false;

 private:
  kolo::detail::transport::progress work() noexcept {
    has_progressed = true;
    while (!is_wanted) ::sched_yield();
    for (int i = 0; i < 50; ++i) ::sched_yield();  // the other thread proceeds as far as it can
    ends();
    has_ended = true;
    return kolo::detail::transport::progress::moved;
  }
};

/// Does the thread that takes over always find the state that the driving thread has left?
inline bool is_taken_over_between(int times) {
  for (int i = 0; i < times; ++i) {
    slow_client one;
    one.join(&slow_client::work_on);
    one.begins();
    bool had_ended = false;
    std::thread other{[&] {
      while (!one.has_progressed) ::sched_yield();
      one.is_wanted = true;
      one.take_over();
      had_ended = one.has_ended;
    }};
    kolo::detail::transport::progress_others(nullptr);
    other.join();
    if (!had_ended) return false;
  }
  return true;
}

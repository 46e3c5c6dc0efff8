// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations that one thread takes over while another one drives them.
#pragma once

#include <kolo/transport/under_way.hpp>

#include <sched.h>

#include <atomic>
#include <thread>

/// Under way until it has been driven once; which lasts until another thread has begun to take it over.
class driven_slowly : public kolo::detail::transport::driven {
 public:
  driven_slowly() : driven{[](driven& d) noexcept { return static_cast<driven_slowly&>(d).work(); }} {}

  std::atomic<bool> is_driven{false}, is_wanted{false};
  bool has_ended = false;

 private:
  kolo::detail::transport::company work() noexcept {
    is_driven = true;
    while (!is_wanted) ::sched_yield();
    for (int i = 0; i < 50; ++i) ::sched_yield();  // the other one comes as far as it may
    ends();
    has_ended = true;
    return kolo::detail::transport::company::moved;
  }
};

/// Does the thread that takes it over find it as the one that drives it has left it, each time?
inline bool is_taken_over_between(int times) {
  for (int i = 0; i < times; ++i) {
    driven_slowly one;
    one.join();
    one.begins();
    bool had_ended = false;
    std::thread other{[&] {
      while (!one.is_driven) ::sched_yield();
      one.is_wanted = true;
      one.take_over();
      had_ended = one.has_ended;
    }};
    kolo::detail::transport::drive_all_but(nullptr);
    other.join();
    if (!had_ended) return false;
  }
  return true;
}

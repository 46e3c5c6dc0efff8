// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How often a rank looks for what it awaits before it gives its core away.
#pragma once

#include <kolo/config.hpp>

#include <algorithm>

namespace kolo::inline KOLO_ABI::detail::os {

/// Long, as a rule: the awaited rank runs on another core, and is soon done. But a system, or a launcher, may keep both
/// on one core, though there are enough: where a third program holds the other one, for seconds, and 2 ranks then took
/// 70 us for a small allreduce. It shows in waits that end as soon as the rank yields. When so many looks were in vain
/// in such waits that the system has had its time to part the two, about half a second, a wait looks once (those 70 us
/// become 2 or 3), and one in 256 looks long all the same: who then finds what it awaits has a core of its own again.
class spin_budget {
 public:
  static constexpr int most = 2000, yields = 16;

  /// Looks of the wait that begins.
  int begin() {
    constexpr int limit = 1 << 24, few = 1 << 19, found = 1 << 17;
    if (looks_ == most && ended_after_ < most) vain_ = std::max(vain_ - found, 0);
    else if (looks_ == most && ended_after_ < most + yields) vain_ = std::min(vain_ + most, limit + few);
    looks_ = vain_ < limit || ++waits_ % 256 == 0 ? most : 1;
    return looks_;
  }
  /// It is at its look of this number, from 0, and has found nothing.
  void polled(int number) { ended_after_ = number; }

 private:
  int looks_ = most, ended_after_ = 0, vain_ = 0;
  unsigned waits_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::os

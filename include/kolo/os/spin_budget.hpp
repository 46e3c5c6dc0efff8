// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How often a rank polls before it yields its core.
#pragma once

#include <kolo/config.hpp>

#include <algorithm>

namespace kolo::inline KOLO_ABI::detail::os {

/// Usually long: the awaited rank runs on another core, and is soon done. But the system, or a launcher, may keep both
/// ranks on one core although there are enough: for example while another program occupies the second core, for
/// seconds; a small allreduce of 2 ranks then took 70 us. The symptom is waits that end as soon as the rank yields.
/// After enough fruitless polls in such waits that the system has had time to separate the two, about half a second, a
/// wait polls once (those 70 us become 2 or 3), except that one in 256 still polls long: if that succeeds, the rank has
/// a core of its own again.
class spin_budget {
 public:
  static constexpr int most = 2000, yields = 16;

  /// The number of polls of a new wait.
  int begin() {
    constexpr int limit = 1 << 24, few = 1 << 19, found = 1 << 17;
    if (looks_ == most && ended_after_ < most) vain_ = std::max(vain_ - found, 0);
    else if (looks_ == most && ended_after_ < most + yields) vain_ = std::min(vain_ + most, limit + few);
    looks_ = vain_ < limit || ++waits_ % 256 == 0 ? most : 1;
    return looks_;
  }
  /// Poll `number`, from 0, has found nothing.
  void polled(int number) { ended_after_ = number; }

 private:
  int looks_ = most, ended_after_ = 0, vain_ = 0;
  unsigned waits_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::os

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compute phase of a chosen length: a processor that is kept busy, or a virtual clock that advances.
#pragma once

#include "../digits/stopwatch.hpp"

#include <algorithm>
#include <ctime>

namespace synthetic {

/// Seconds of processor time of this thread, so that ranks that are more than the cores really have that much to do each.
inline double processor_seconds() {
  std::timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

template <class Comm>
class load {
 public:
  /// Longest without a pause: `slice` seconds.
  load(const Comm& comm, double slice) : comm_{comm}, slice_{slice} {}

  /// So many seconds more of the phase, of which f() is a part; pause() is called now and then, and is none of it.
  template <class F, class Pause>
  void work(double seconds, F f, Pause pause) {
    const double before = processor_seconds();
    f();
    if constexpr (!digits::Simulated<Comm>) used_ += processor_seconds() - before;
    for (due_ += seconds; used_ < due_; pause()) {
      const double now = std::min(due_ - used_, slice_);
      digits::charge(comm_, now);
      used_ += digits::Simulated<Comm> ? now : burn(now);
    }
  }

  double used() const { return used_; }  ///< seconds, of all phases; more than was asked for where f alone took longer

 private:
  static double burn(double seconds) {
    const double since = processor_seconds();
    for (double now = since;; now = processor_seconds())
      if (now - since >= seconds) return now - since;
  }

  const Comm& comm_;
  double slice_;
  double due_ = 0, used_ = 0;
};

}  // namespace synthetic

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A computation of a chosen length: a calibrated number of products of small matrices or, for simulated ranks, an advance of the virtual clock.
#pragma once

#include "../digits/stopwatch.hpp"

#include <kolo/collective/allreduce.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <span>

namespace synthetic {

/// Seconds of processor time of this thread: with more ranks than cores, each still does the same work.
inline double processor_seconds() {
  std::timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// A product of two matrices in the first-level cache; takes some microseconds.
class product {
 public:
  product() { a_.fill(0.5f), b_.fill(0.25f); }
  void compute() {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < n; ++k)
        for (std::size_t j = 0; j < n; ++j) c_[i * n + j] = 0.5f * c_[i * n + j] + a_[i * n + k] * b_[k * n + j];
    a_[0] = 0.5f + 1e-6f * c_[n];  // prevents the compiler from removing products
  }

 private:
  static constexpr std::size_t n = 32;
  alignas(64) std::array<float, n * n> a_, b_, c_{};
};

/// Amounts of work are given in seconds of processor time on an idle machine.
template <class Comm>
class load {
 public:
  /// Collective. `slice`: seconds of work between two calls of pause().
  load(Comm& comm, double slice) : comm_{comm}, slice_{slice} {
    if constexpr (!digits::Simulated<Comm>) {
      double each = fastest();
      kolo::allreduce(comm, std::span{&each, 1}, kolo::min);  // all ranks do the same work
      each_ = each;
    }
  }

  /// Calls f(), then works for `seconds`. Calls pause() after each slice.
  template <class F, class Pause>
  void work(double seconds, F f, Pause pause) {
    f();
    for (due_ += seconds; due_ > 0; pause()) {
      const double now = std::min(due_, slice_);
      due_ -= multiply(now);
      digits::charge(comm_, now);
    }
  }

 private:
  /// Seconds per product, the least of several measurements.
  double fastest() {
    constexpr int products = 500, tries = 5;
    double least = 1;
    for (int i = 0; i < tries; ++i) {
      const double since = processor_seconds();
      for (int k = 0; k < products; ++k) product_.compute();
      least = std::min(least, (processor_seconds() - since) / products);
    }
    return least;
  }

  /// Works for at least `seconds`; returns how long.
  double multiply(double seconds) {
    if constexpr (digits::Simulated<Comm>) return seconds;
    double done = 0;
    for (; done < seconds; done += each_) product_.compute();
    return done;
  }

  Comm& comm_;
  double slice_, each_ = 0;
  double due_ = 0;  ///< negative: excess work, which is subtracted from the next call's
  product product_{};
};

}  // namespace synthetic

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compute phase of a chosen length: products of small matrices, as many as were measured to take so long, or a virtual clock that advances.
#pragma once

#include "../digits/stopwatch.hpp"

#include <kolo/collective/allreduce.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <span>

namespace synthetic {

/// Seconds of processor time of this thread, so that ranks that are more than the cores really have that much to do each.
inline double processor_seconds() {
  std::timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Two matrices and their product: what a layer computes, in the first cache, and some microseconds long.
class product {
 public:
  product() { a_.fill(0.5f), b_.fill(0.25f); }
  void compute() {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < n; ++k)
        for (std::size_t j = 0; j < n; ++j) c_[i * n + j] = 0.5f * c_[i * n + j] + a_[i * n + k] * b_[k * n + j];
    a_[0] = 0.5f + 1e-6f * c_[n];  // so that none can be left out
  }

 private:
  static constexpr std::size_t n = 32;
  alignas(64) std::array<float, n * n> a_, b_, c_{};
};

/// Amounts of work are said in seconds: those of the processor that they take where nothing disturbs them.
template <class Comm>
class load {
 public:
  /// Collective. `slice`: seconds of work between two pauses.
  load(Comm& comm, double slice) : comm_{comm}, slice_{slice} {
    if constexpr (!digits::Simulated<Comm>) {
      double each = fastest();
      kolo::allreduce(comm, std::span{&each, 1}, kolo::min);  // all ranks do the same
      each_ = each;
    }
  }

  /// f(), and so much of the phase. pause() is called after each slice of it.
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
  /// Seconds of one product.
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

  /// How much it did: at least so much.
  double multiply(double seconds) {
    if constexpr (digits::Simulated<Comm>) return seconds;
    double done = 0;
    for (; done < seconds; done += each_) product_.compute();
    return done;
  }

  Comm& comm_;
  double slice_, each_ = 0;
  double due_ = 0;  ///< negative: what was done too much goes off the next phase
  product product_{};
};

}  // namespace synthetic

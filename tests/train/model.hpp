// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the tests of train: parameters with known gradients, and a counter of errors on any rank.
#pragma once

#include <kolo/collective/barrier.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "support/ends.hpp"

namespace testing {

struct parameter {
  std::span<float> value, gradient;
};

/// Tensors of the given sizes. Values and gradients are small integers, so that sums are exact in any order.
struct model {
  std::vector<std::vector<float>> values, gradients;

  explicit model(const std::vector<std::size_t>& sizes) {
    for (const std::size_t n : sizes) {
      values.emplace_back(n);
      gradients.emplace_back(n);
      for (std::size_t i = 0; i < n; ++i) values.back()[i] = static_cast<float>(i % 7);
    }
  }
  std::vector<parameter> parameters() {
    std::vector<parameter> all;
    for (std::size_t i = 0; i < values.size(); ++i) all.push_back({values[i], gradients[i]});
    return all;
  }
  static float at(int rank, int step, std::size_t tensor, std::size_t i) {
    return static_cast<float>(
               (static_cast<std::size_t>(rank + 1) * (i % 11 + 2 * tensor + 1) + static_cast<std::size_t>(step)) % 23) *
           12;
  }
  void set_gradient(int rank, int step, std::size_t tensor) {
    for (std::size_t i = 0; i < gradients[tensor].size(); ++i) gradients[tensor][i] = at(rank, step, tensor, i);
  }
  void set_gradients(int rank, int step) {
    for (std::size_t t = 0; t < gradients.size(); ++t) set_gradient(rank, step, t);
  }
  /// Sets the gradients to the sums over ranks first ... first + count - 1, divided by `divisor`.
  void set_sums(int first, int count, int step, float divisor) {
    for (std::size_t t = 0; t < gradients.size(); ++t)
      for (std::size_t i = 0; i < gradients[t].size(); ++i) {
        gradients[t][i] = 0;
        for (int r = first; r < first + count; ++r) gradients[t][i] += at(r, step, t, i);
        gradients[t][i] /= divisor;
      }
  }
};

/// Makes two steps and a barrier. Rank 0 makes the mistake at the start of the second step.
template <class C, class Optimizer, class Wrong>
void misuse_in_second_step(C& comm, Optimizer& optimizer, model& mine, Wrong wrong) {
  for (int step = 0; step < 2; ++step) {
    if (comm.rank() == 0 && step == 1) wrong();
    for (std::size_t i = 0; i < mine.values.size(); ++i) mine.set_gradient(comm.rank(), step, i), optimizer.ready(i);
    optimizer.step();
  }
  kolo::barrier(comm);
}

struct descent {
  float rate = 0.5f;
  void step(std::size_t, std::span<float> value, std::span<const float> gradient) {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] -= rate * gradient[i];
  }
};

/// A rule that sets each value to its step number.
struct counting {
  static constexpr std::size_t states = 0;
  void operator()(std::span<float> value, std::span<const float>, const std::array<std::span<float>, 0>&,
                  long step) const {
    for (float& x : value) x = static_cast<float>(step);
  }
};

template <class Optimizer>
void step_alone(Optimizer& o, model& m) {
  std::size_t i = 0;
  for (const parameter& p : m.parameters()) o.step(i++, p.value, p.gradient);
}

/// Catch2 macros stay on the main thread: ranks count their errors.
struct tally {
  std::atomic<int> wrong = 0;
  void expect(bool right) { wrong += !right; }
};

}  // namespace testing

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Common to all variants of training without a model: tensors of real sizes, and a backward pass that writes gradients.
#pragma once

#include "load.hpp"
#include "models.hpp"
#include "settings.hpp"

#include <kolo/launch/processes.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/shm/heap.hpp>
#include <kolo/train/learning_rate.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace synthetic {

/// Calls f with the algorithm of this name, which is one of `algorithms`.
template <class F>
void with_algorithm(const std::string& name, F&& f) {
  if (name == "ring") f(kolo::ring{});
  else if (name == "two_shot") f(kolo::two_shot{});
  else f(kolo::automatic{});
}

/// 6.4 in the first step on four ranks, almost 0 after 1000 steps.
inline auto learning_rate(int ranks) { return kolo::polynomial_decay{kolo::by_size(1.6f, ranks), 1e-5f, 1000}; }

struct parameter {
  std::span<float> value, gradient;
};

/// The value of all elements of gradient i on rank r.
inline float gradient_of(std::size_t i, int r) { return float(1 + (i + std::size_t(r)) % 7); }

/// Values in ordinary memory, gradients in memory that other ranks can read.
class tensors {
 public:
  tensors(std::vector<scaling::tensor> all, const kolo::shm::allocator<float>& shared)
      : sizes{std::move(all)}, values_(total(sizes)), gradients_(values_.size(), 0.0f, shared) {
    for (std::size_t i = 0, at = 0; i < sizes.size(); at += sizes[i++].elements)
      parameters_.push_back(
          {std::span{values_}.subspan(at, sizes[i].elements), std::span{gradients_}.subspan(at, sizes[i].elements)});
  }
  tensors(const tensors&) = delete;
  tensors& operator=(const tensors&) = delete;

  std::vector<parameter>& parameters() { return parameters_; }
  std::span<float> values() { return values_; }

  /// Writes gradient i of rank r.
  void write(std::size_t i, int r) {
    std::fill(parameters_[i].gradient.begin(), parameters_[i].gradient.end(), gradient_of(i, r));
  }
  /// The same with pseudo-random numbers: the bits of their sums depend on the order of additions.
  void write_noise(std::size_t i, int r) {
    auto x = std::uint32_t(i * 7919 + std::size_t(r) * 104729 + 1);
    for (float& g : parameters_[i].gradient) x = x * 1664525u + 1013904223u, g = float(std::int32_t(x)) * 1e-9f;
  }

  const std::vector<scaling::tensor> sizes;

 private:
  static std::size_t total(const std::vector<scaling::tensor>& sizes) {
    std::size_t all = 0;
    for (const auto& t : sizes) all += t.elements;
    return all;
  }

  std::vector<float> values_;
  std::vector<float, kolo::shm::allocator<float>> gradients_;
  std::vector<parameter> parameters_{};
};

/// The number of gradient elements that are not the mean over `ranks`.
inline std::uint64_t count_wrong(const std::vector<parameter>& parameters, int ranks) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    float mean = 0;
    for (int r = 0; r < ranks; ++r) mean += gradient_of(i, r) / float(ranks);
    wrong += std::uint64_t(std::count_if(parameters[i].gradient.begin(), parameters[i].gradient.end(),
                                         [&](float g) { return !(std::abs(g - mean) < 1e-4f); }));
  }
  return wrong;
}

/// Forward and backward pass. Backward, from the last tensor to the first: write(i), tensor i's share of the work, ready(i).
template <class Comm, class Write, class Ready, class Pause>
void compute(const settings& s, double seconds, const std::vector<scaling::tensor>& sizes, load<Comm>& busy,
             Write write, Ready ready, Pause pause) {
  const double backward = seconds * s.backward_share;
  double work = 0;
  for (const auto& t : sizes) work += t.work;
  busy.work(
      seconds - backward, [] {}, [] {});
  for (std::size_t i = sizes.size(); i-- > 0;) {
    busy.work(
        backward * sizes[i].work / work, [&] { write(i); }, pause);
    ready(i);
  }
}

}  // namespace synthetic

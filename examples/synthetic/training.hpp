// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank of training without a model: gradients of the real sizes, written as by a backward pass, averaged, and applied.
#pragma once

#include "../digits/stopwatch.hpp"
#include "load.hpp"
#include "models.hpp"
#include "outcome.hpp"
#include "settings.hpp"

#include <kolo/collective/barrier.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/train/learning_rate.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/state.hpp>
#include <kolo/train/update.hpp>
#include <kolo/transport/shm.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace synthetic {

/// Calls f with the algorithm of this name, which is one of `algorithms`.
template <class F>
void with_algorithm(const std::string& name, F&& f) {
  if (name == "ring") f(kolo::ring{});
  else if (name == "two_shot") f(kolo::two_shot{});
  else f(kolo::automatic{});
}

/// The rate of the tutorials' synthetic run: 6.4 at first on four ranks, nothing after 1000 steps.
inline auto learning_rate(int ranks) { return kolo::polynomial_decay{kolo::by_size(1.6f, ranks), 1e-5f, 1000}; }

struct parameter {
  std::span<float> value, gradient;
};

/// Values in ordinary memory, gradients in memory that the other ranks can read.
class tensors {
 public:
  tensors(const std::vector<scaling::tensor>& sizes, const kolo::shm::allocator<float>& shared)
      : values_(total(sizes)), gradients_(values_.size(), 0.0f, shared) {
    for (std::size_t i = 0, at = 0; i < sizes.size(); at += sizes[i++].elements)
      parameters_.push_back({std::span{values_}.subspan(at, sizes[i].elements), std::span{gradients_}.subspan(at, sizes[i].elements)});
  }
  tensors(const tensors&) = delete;
  tensors& operator=(const tensors&) = delete;

  std::vector<parameter>& parameters() { return parameters_; }

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

/// What rank r writes into gradient i.
inline float gradient_of(std::size_t i, int r) { return float(1 + (i + std::size_t(r)) % 7); }

/// How many gradients are not the mean over so many ranks.
inline std::uint64_t count_wrong(const std::vector<parameter>& parameters, int ranks) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    float mean = 0;
    for (int r = 0; r < ranks; ++r) mean += gradient_of(i, r) / float(ranks);
    wrong += std::uint64_t(std::count_if(parameters[i].gradient.begin(), parameters[i].gradient.end(), [&](float g) { return !(std::abs(g - mean) < 1e-4f); }));
  }
  return wrong;
}

/// Forward and backward: every gradient when its layer's share of the work is done, from the last to the first.
template <class Comm, class Optimizer>
void compute(const Comm& comm, const settings& s, const std::vector<scaling::tensor>& sizes, bool overlaps, std::span<const parameter> parameters,
             Optimizer& optimizer, load<Comm>& busy) {
  const double all = 1e-3 * s.compute_ms, backward = all * s.backward_share;
  double work = 0;
  for (const auto& t : sizes) work += t.work;
  busy.work(all - backward, [] {}, [] {});
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const auto write = [&] { std::fill(parameters[i].gradient.begin(), parameters[i].gradient.end(), gradient_of(i, comm.rank())); };
    busy.work(backward * sizes[i].work / work, write, [&] {
      if (overlaps) optimizer.progress();
    });
    if (overlaps) optimizer.ready(i);
  }
}

/// Trains with all ranks of `comm`, which were started at `since`. Rank 0 fills `out`, and `seconds` with those of every step.
template <class Comm, class Algorithm>
void train(Comm& comm, Algorithm algorithm, const settings& s, bool overlaps, double since, outcome& out, std::span<double> seconds) {
  const auto sizes = tensors_of(s.model, s.shrink);
  tensors model{sizes, kolo::shm::allocator<float>{comm}};
  auto& parameters = model.parameters();
  const auto rate = learning_rate(comm.size());
  kolo::broadcast_parameters(comm, parameters);
  kolo::distributed_optimizer optimizer{comm, kolo::replicated<kolo::update::sgd>{{}}, parameters, algorithm, {.bucket_bytes = s.bucket_bytes}};
  if (comm.rank() == 0 && overlaps == s.modes().front()) std::printf("\n%s", optimizer.buckets().message().c_str()), std::fflush(stdout);
  kolo::barrier(comm);
  load busy{comm, 1e-6 * s.progress_us};
  outcome mine{.start_up = digits::now(comm) - since};
  const double later = double(seconds.size() - 1);
  for (std::size_t step = 0; step < seconds.size(); ++step) {
    const double begin = digits::now(comm), used = busy.used();
    compute(comm, s, sizes, overlaps, parameters, optimizer, busy);
    optimizer.synchronize();
    const double exchanged = digits::now(comm);
    optimizer.inner().rule.rate = rate(int(step));
    optimizer.step();
    const double end = digits::now(comm);
    if (comm.rank() == 0) seconds[step] = end - begin;
    if (step == 0) continue;
    mine.compute += (busy.used() - used) / later;
    mine.update += (end - exchanged) / later;
    mine.hidden += optimizer.overlap().hidden() / later;
  }
  mine.wrong = count_wrong(parameters, comm.size());
  kolo::allreduce(comm, std::span{&mine.wrong, 1}, kolo::sum);
  if (comm.rank() == 0) out = mine;
}

}  // namespace synthetic

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model that trains by leaves on any number of ranks, beside a reference that trains alone on the sums of the tree of all leaves.
#pragma once

#include <kolo/train/metrics.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/sharded.hpp>

#include "train/model.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace testing {

/// Magnitudes differ, so different orders round differently.
inline float of_leaf(std::size_t leaf, int step, std::size_t tensor, std::size_t i) {
  std::uint64_t x = (((leaf * 8 + static_cast<std::size_t>(step)) * 8 + tensor) * 1024 + i + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
  return static_cast<float>(static_cast<std::int32_t>(x >> 32)) * (x % 5 == 0 ? 1e-6f : 1e-9f);
}
inline float of_subtree(std::size_t first, std::size_t count, int step, std::size_t tensor, std::size_t i) {
  if (count == 1) return of_leaf(first, step, tensor, i);
  return of_subtree(first, count / 2, step, tensor, i) + of_subtree(first + count / 2, count / 2, step, tensor, i);
}

inline const kolo::update::adamw rule_by_leaves{.rate = 0.1};

inline auto make_replicated = [](auto& comm, auto& parameters, const kolo::optimizer_options& o) {
  return kolo::distributed_optimizer{comm, kolo::replicated{rule_by_leaves}, parameters, o};
};
inline auto make_sharded = [](auto& comm, auto& parameters, const kolo::optimizer_options& o) {
  return kolo::sharded_optimizer{comm, rule_by_leaves, parameters, o};
};

inline constexpr int skipped = 4;

/// Some gradients are accumulated, some are marked ready; some are clipped between exchange and step; steps that overflow are skipped. Returns whether all
/// values are the reference's.
template <class Comm, class Make>
bool learns_by_leaves(Comm& comm, int leaves, Make make, kolo::background* helper = nullptr,
                      std::size_t longest = 300) {
  const std::vector<std::size_t> sizes{5, longest, 0, 41, 7};
  model mine{sizes}, reference{sizes};
  auto parameters = mine.parameters();
  auto optimizer = make(comm, parameters, {.bucket_bytes = 200, .leaves = leaves, .helper = helper});
  kolo::replicated alone{rule_by_leaves};
  const kolo::extent own = kolo::leaves{leaves}.of(comm.rank(), comm.size());
  bool right = true;
  for (const int step : {0, 1, 2 + skipped, 2, 3 + skipped, 3}) {
    if (step % 2 == 0) optimizer.zero_gradients();
    for (std::size_t leaf = own.first; leaf < own.first + own.count; ++leaf) {
      const bool is_last = leaf + 1 == own.first + own.count;
      for (std::size_t t = sizes.size(); t-- > 0;) {
        for (std::size_t i = 0; i < sizes[t]; ++i) {
          float& g = mine.gradients[t][i];
          g = (step % 2 == 0 ? g : 0) + of_leaf(leaf, step, t, i);
        }
        if (step >= skipped && t == 1) mine.gradients[t][7] = std::numeric_limits<float>::infinity();
        if (step > 1) optimizer.ready(t);
      }
      if (is_last && step > 0) {
        optimizer.synchronize();
        if constexpr (requires { optimizer.clip_by_global_norm(1); }) optimizer.clip_by_global_norm(1);
        else kolo::clip_by_global_norm(parameters, 1);
      }
      if (is_last && step >= skipped) optimizer.skip_step();
      else right = right && optimizer.step() == is_last;
    }
    if (step >= skipped) continue;
    for (std::size_t t = 0; t < sizes.size(); ++t)
      for (std::size_t i = 0; i < sizes[t]; ++i)
        reference.gradients[t][i] =
            of_subtree(0, static_cast<std::size_t>(leaves), step, t, i) / static_cast<float>(leaves);
    if (step > 0) kolo::clip_by_global_norm(reference.parameters(), 1);
    step_alone(alone, reference);
    right = right && mine.values == reference.values;
  }
  return right;
}

/// Whether the means of two metrics of each leaf are those of the tree.
template <class Comm>
bool averages_by_leaves(Comm& comm, int leaves) {
  const kolo::extent own = kolo::leaves{leaves}.of(comm.rank(), comm.size());
  std::vector<double> metrics;
  for (std::size_t leaf = own.first; leaf < own.first + own.count; ++leaf)
    for (const std::size_t i : {0u, 1u}) metrics.push_back(1 / static_cast<double>(3 + leaf + 7 * i));
  const auto of = [](auto self, std::size_t first, std::size_t count, std::size_t i) -> double {
    if (count == 1) return 1 / static_cast<double>(3 + first + 7 * i);
    return self(self, first, count / 2, i) + self(self, first + count / 2, count / 2, i);
  };
  const auto means = kolo::average_metrics(comm, metrics, kolo::leaves{leaves});
  const auto n = static_cast<std::size_t>(leaves);
  return means == std::vector{of(of, 0, n, 0) / leaves, of(of, 0, n, 1) / leaves};
}

}  // namespace testing

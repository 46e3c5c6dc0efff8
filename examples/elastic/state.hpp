// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of a training: parameters, their velocities, and the number of batches. It does not depend on the number of ranks.
#pragma once

#include "../digits/network.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace elastic {

/// A step has `leaves` batches of `batch_of_leaf` images on any number of ranks: the same bits.
inline constexpr int leaves = 8;
inline constexpr std::size_t batch_of_leaf = 15;

struct settings {
  int ranks = 4;
  int epochs = 4;
  int save_every = 25;               // steps
  int kill_rank = 2, kill_at = 130;  // kill_at: a step; -1: no process is killed
  int join_at = 200;                 // the step after which new processes join; -1: never
  std::string meeting;               // the name that kolo::shm::join and grow use
  std::size_t images = 12'000;
  std::uint64_t seed = 1;
  std::string checkpoint;      // file
  double accuracy_above = -1;  // per cent
};

class state {
 public:
  state(std::uint64_t seed, const digits::network::memory& for_gradients)
      : model{{digits::pixels, 128, digits::classes}, seed, for_gradients} {
    for (const auto& p : model.parameters()) velocities.emplace_back(p.value.size());
  }

  /// The tensors of a checkpoint.
  std::vector<digits::parameter> all() {
    auto tensors = model.parameters();
    for (auto& v : velocities) tensors.push_back({v, v});
    tensors.push_back({{&batches, 1}, {&batches, 1}});
    return tensors;
  }

  digits::network model;
  std::vector<std::vector<float>> velocities;
  float batches = 0;  // completed by all ranks; exact up to 2^24
};

/// Gradient descent with momentum; the velocities belong to the state.
struct sgd {
  std::vector<std::vector<float>>* velocities;
  float rate = 0;

  void step(std::size_t index, std::span<float> value, std::span<const float> gradient) const {
    auto& velocity = (*velocities)[index];
    for (std::size_t i = 0; i < value.size(); ++i) {
      velocity[i] = 0.9f * velocity[i] + gradient[i] + 1e-4f * value[i];
      value[i] -= rate * velocity[i];
    }
  }
};

}  // namespace elastic

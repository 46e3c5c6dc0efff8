// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stochastic gradient descent with momentum and weight decay.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace digits {

inline constexpr float momentum = 0.9f;
inline constexpr float weight_decay = 1e-4f;

/// Keeps a velocity for every parameter, from its first step on.
class sgd {
 public:
  float rate;  // to be set before each step

  explicit sgd(float first_rate) : rate{first_rate} {}

  void step(std::size_t index, std::span<float> value, std::span<const float> gradient) {
    if (velocity_.size() <= index) velocity_.resize(index + 1);
    std::vector<float>& velocity = velocity_[index];
    velocity.resize(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
      velocity[i] = momentum * velocity[i] + gradient[i] + weight_decay * value[i];
      value[i] -= rate * velocity[i];
    }
  }

 private:
  std::vector<std::vector<float>> velocity_;
};

}  // namespace digits

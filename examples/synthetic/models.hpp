// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sizes of the tensors of real models: ResNet-50 (examples/scaling) and GPT-2 with 124 million parameters.
#pragma once

#include "../scaling/resnet50.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace synthetic {

/// In the order of the forward pass: 148 tensors, 124,439,808 elements. `work`: multiplications for one of 1024 tokens.
/// Source  Radford et al., "Language models are unsupervised multitask learners", 2019: 12 layers, width 768, 50257 words, 1024 places.
inline std::vector<scaling::tensor> gpt2() {
  constexpr std::size_t layers = 12, width = 768, words = 50257, places = 1024;
  std::vector<scaling::tensor> all{{words * width, 0}, {places * width, 0}};
  const auto normalise = [&](double work) { all.push_back({width, 0}), all.push_back({width, work}); };
  const auto linear = [&](std::size_t in, std::size_t out, double more) {
    all.push_back({in * out, double(in * out) + more}), all.push_back({out, 0});
  };
  for (std::size_t l = 0; l < layers; ++l) {
    normalise(0);
    linear(width, 3 * width, 2.0 * places * width);  // includes the attention itself, which has no parameters
    linear(width, width, 0);
    normalise(0);
    linear(width, 4 * width, 0);
    linear(4 * width, width, 0);
  }
  // Includes the final product with the first tensor, whose gradient is complete only at the end of the backward pass.
  normalise(double(words * width));
  return all;
}

inline constexpr const char* models[] = {"resnet50", "gpt2"};

/// The model of this name, the size of each tensor divided by `shrink`.
inline std::vector<scaling::tensor> tensors_of(const std::string& name, std::size_t shrink = 1) {
  if (name != "resnet50" && name != "gpt2") throw std::invalid_argument("there is no model '" + name + "'");
  auto all = name == "gpt2" ? gpt2() : scaling::resnet50();
  for (auto& t : all) t.elements = std::max<std::size_t>(t.elements / shrink, 1);
  return all;
}

}  // namespace synthetic

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates the data, or reads it, as the settings say.
#pragma once

#include "generator.hpp"
#include "idx.hpp"
#include "settings.hpp"

#include <cstdio>
#include <stdexcept>
#include <string>

namespace digits {

inline split load(const settings& s) {
  split data = s.mnist.empty() ? generate_split(s.images, s.images / 6, s.seed) : read_mnist(s.mnist);
  if (data.train.size() < std::size_t(s.batch))
    throw std::runtime_error("a batch of " + std::to_string(s.batch) + " images is more than the " +
                             std::to_string(data.train.size()) + " training images: choose a smaller --batch");
  return data;
}

inline void describe(const split& data, const settings& s) {
  std::printf("%zu %s digits for training, %zu for testing; model %s, batches of %d, allreduce algorithm %s\n",
              data.train.size(), s.mnist.empty() ? "generated" : "MNIST", data.test.size(), s.model.c_str(), s.batch,
              s.algorithm.c_str());
}

}  // namespace digits

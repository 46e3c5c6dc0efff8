// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data that the settings ask for: generated, or read.
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
                             std::to_string(data.train.size()) + " that there are: choose a smaller --batch");
  return data;
}

inline void describe(const split& data, const settings& s) {
  std::printf("%zu %s digits to learn from, %zu to judge by; %s, batches of %d, %s allreduce.\n", data.train.size(),
              s.mnist.empty() ? "generated" : "MNIST", data.test.size(), s.model.c_str(), s.batch, s.algorithm.c_str());
}

}  // namespace digits

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of the command line and their defaults.
#pragma once

#include "model.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpt {

struct settings {
  int ranks = 2;
  int shard = 0;  // processes that divide parameters, gradients and state; 0: each has all parameters
  int data = 1, tensor = 1, pipeline = 1, ring = 1;  // ranks that divide the batch, matrices, layers, sequences
  bool together = false;                             // one of these four was given
  int micro = 4;                                     // micro-batches per step of a pipeline
  int steps = 200;
  int batch = 16;  // sequences per step, over all ranks
  int leaves = 8;  // equal parts of a batch: the same bits on any number of ranks up to this
  shape model{};
  double rate = 3e-3;
  std::uint64_t seed = 1;
  int sample = 300;  // characters to generate at the end
  std::string text;  // directory of a repository
  double loss_below = 1e9;
  std::size_t bucket_bytes = 1 << 17;
};

}  // namespace gpt

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can be set on the command line, and what the program does without.
#pragma once

#include "model.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpt {

struct settings {
  int ranks = 2;
  int shard = 0;  // processes that have a part of everything each; 0: they have all parameters
  int data = 1, tensor = 1, pipeline = 1, ring = 1;  // ranks that share the batch, matrices, layers, sequences
  bool together = false;                             // one of these was said
  int micro = 4;                                     // micro-batches of a pipeline's step
  int steps = 200;
  int batch = 16;  // sequences of one step, over all ranks
  int leaves = 8;  // parts of it that are learned one by one: the same bits on any number of ranks up to so many
  shape model{};
  double rate = 3e-3;
  std::uint64_t seed = 1;
  int sample = 300;  // characters to write at the end
  std::string text;  // directory of a repository
  double loss_below = 1e9;
  std::size_t bucket_bytes = 1 << 17;
};

}  // namespace gpt

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the program prints about its runs.
#pragma once

#include "outcome.hpp"
#include "settings.hpp"

#include <vector>

namespace synthetic {

/// What is exchanged, and what the compute phase is.
void describe(const settings&);

/// Step, speed, learning rate and time of some steps, and the mean of all but the first.
void print(const run&, const settings&);

/// All runs, against the first one.
void print_scaling(const std::vector<run>&, const settings&);

/// Whether every gradient was the mean, and whether overlap was worth as much as is expected; says it where not.
bool check(const std::vector<run>&, const settings&);

/// Where ways took turns, and how long a rank computed in a step.
struct place {
  int ranks = 1, nodes = 1;
  double seconds;
};
void print(const std::vector<entry>&, const place&, const settings&);

/// The same of them; and whether the bits are the same on every rank, and whenever the same buckets are exchanged.
bool check(const std::vector<entry>&, const settings&);

}  // namespace synthetic

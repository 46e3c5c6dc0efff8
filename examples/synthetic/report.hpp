// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints and checks the results of runs.
#pragma once

#include "outcome.hpp"
#include "settings.hpp"

#include <vector>

namespace synthetic {

/// Prints what is exchanged and what is computed.
void describe(const settings&);

/// Prints step, samples/s, learning rate and time of some steps, and the mean of all but the first.
void print(const run&, const settings&);

/// Prints all runs, relative to the first one.
void print_scaling(const std::vector<run>&, const settings&);

/// Checks that every gradient was the mean, and that overlap shortened steps as expected; prints what is wrong.
bool check(const std::vector<run>&, const settings&);

/// The ranks and nodes of a comparison, and the seconds of computation per step.
struct place {
  int ranks = 1, nodes = 1;
  double seconds;
};
void print(const std::vector<entry>&, const place&, const settings&);

/// The same checks; and that bits are the same on every rank, and in all variants with the same buckets.
bool check(const std::vector<entry>&, const settings&);

}  // namespace synthetic

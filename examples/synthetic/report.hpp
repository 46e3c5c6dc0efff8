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

}  // namespace synthetic

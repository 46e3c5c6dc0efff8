// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The summary of all runs, and the comparison of their loss curves.
#pragma once

#include "outcome.hpp"
#include "settings.hpp"

#include <cstddef>
#include <vector>

namespace digits {

/// One training and its results.
struct run {
  int ranks;           // processes, or simulated
  std::size_t images;  // of all steps of all epochs
  outcome result;
  std::vector<double> curve;  // the loss of every step
};

/// The largest differences of two loss curves. Sums in another order differ in their last bits, and training amplifies such
/// differences: so only the first hundred steps are compared one by one, and the rest by the means of epochs.
/// Differences are relative to the loss, but to no less than 1 for a step and 0.1 for an epoch.
struct difference {
  double step = 0, epoch = 0;

  static constexpr double step_tolerance = 1e-4, epoch_tolerance = 1e-2;
  bool within_tolerance() const { return step <= step_tolerance && epoch <= epoch_tolerance; }
};

difference compare(const std::vector<double>& a, const std::vector<double>& b, int epochs);

/// Prints the table of all runs, next to the speed of as many independent trainings on this machine, and a digest of the
/// parameters of each run. `who`: "Processes" or "Ranks".
void print_summary(const std::vector<run>& runs, const char* who);

/// Prints the difference of each run's curve from the first one's; false if one exceeds the tolerance.
bool print_curves(const std::vector<run>& runs, int epochs, const char* who);

/// Prints and returns whether all runs have the same parameters.
bool check_bits(const std::vector<run>& runs);

/// Prints the accuracy of local steps next to that of synchronous steps on as many ranks.
void print_beside(const std::vector<run>& synchronous, const std::vector<run>& local, const settings& s);

/// Prints each run whose accuracy is not within --accuracy-above and -below; false if there is one.
bool check_accuracy(const std::vector<run>& runs, const settings& s);

}  // namespace digits

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The end of the program: what every number of processes has achieved, and whether all have learned the same.
#pragma once

#include "outcome.hpp"
#include "settings.hpp"

#include <cstddef>
#include <vector>

namespace digits {

/// One training, as its parent saw it.
struct run {
  int ranks;           // processes, or simulated
  std::size_t images;  // seen, over all epochs
  outcome result;
  std::vector<double> curve;  // the loss of every step
};

/// How far two curves are from each other. Sums in another order differ in their last bits, and a network that learns makes such
/// differences grow: so single steps are compared among the first hundred only, and after that the means of whole epochs.
/// Differences are relative to the loss, but to no less than 1 for a step and 0.1 for an epoch.
struct difference {
  double step = 0, epoch = 0;  // the largest of each

  static constexpr double step_tolerance = 1e-4, epoch_tolerance = 1e-2;
  bool within_tolerance() const { return step <= step_tolerance && epoch <= epoch_tolerance; }
};

difference compare(const std::vector<double>& a, const std::vector<double>& b, int epochs);

/// Prints the table of all runs, beside what as many trainings that do not talk to each other have done on this machine, and a digest of the
/// parameters of each: equal bits, equal digests. `who`: processes, or ranks.
void print_summary(const std::vector<run>& runs, const char* who);

/// Prints how far each run's curve is from the first one's; false if one is too far away.
bool print_curves(const std::vector<run>& runs, int epochs, const char* who);

/// Do all have the same parameters? Says so.
bool check_bits(const std::vector<run>& runs);

/// Prints what local steps have learned beside what synchronous ones of as many ranks have.
void print_beside(const std::vector<run>& synchronous, const std::vector<run>& local, const settings& s);

/// Says so, and returns false, where a run's accuracy is not between what was asked for.
bool check_accuracy(const std::vector<run>& runs, const settings& s);

}  // namespace digits

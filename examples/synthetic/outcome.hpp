// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The results of runs.
#pragma once

#include "way.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace synthetic {

/// Seconds on rank 0; those of steps are means without the first step.
struct outcome {
  double start_up = 0;  ///< until all ranks have planned their buckets and have equal parameters
  double compute = 0, update = 0;
  double hidden = 0;        ///< fraction of the exchange that rank 0 did not wait for
  std::uint64_t wrong = 0;  ///< number of gradient elements, over all ranks, that are not the mean
};

struct run {
  int ranks = 1;
  bool overlaps = false;
  outcome result{};
  std::vector<double> seconds{};  ///< of each step
};

/// The results of one of several interleaved variants. Seconds on rank 0, means of steps, except `seconds`.
struct entry {
  way how{};
  std::size_t buckets = 0;
  std::vector<double> seconds{};  ///< of each step, on its slowest rank
  double compute = 0, update = 0, hidden = 0;
  std::uint64_t digest = 0;  ///< of the bits of the parameters after a step from zeros
  bool is_same_everywhere = false;
  std::uint64_t wrong = 0;  ///< number of gradient elements, over all ranks, that are not the mean after the last step
};

/// A mean, and 1.96 standard deviations of one value.
struct spread {
  double mean = 0, wide = 0;
};
spread spread_of(std::span<const double> values);
double median_of(std::vector<double> values);

}  // namespace synthetic

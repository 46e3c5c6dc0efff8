// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What runs leave behind for their report.
#pragma once

#include "way.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace synthetic {

/// Of rank 0, but for `wrong`. Seconds; of steps: means without the first.
struct outcome {
  double start_up = 0;  ///< until all ranks have their buckets planned and their parameters equal
  double compute = 0, update = 0;
  double hidden = 0;        ///< part of the exchange that nobody waited for
  std::uint64_t wrong = 0;  ///< gradients of all ranks that are not the mean
};

struct run {
  int ranks = 1;
  bool overlaps = false;
  outcome result{};
  std::vector<double> seconds{};  ///< of each step
};

/// A way that took turns with others. Of rank 0, but for `seconds` and `wrong`; means of steps.
struct entry {
  way how{};
  std::size_t buckets = 0;
  std::vector<double> seconds{};  ///< of each step, by its slowest rank
  double compute = 0, update = 0, hidden = 0;
  std::uint64_t digest = 0;  ///< of the bits of the parameters after a step from zeros
  bool is_same_everywhere = false;
  std::uint64_t wrong = 0;  ///< gradients of all ranks that are not the mean, after the last step
};

/// A mean, and what 1.96 standard deviations of one value are.
struct spread {
  double mean = 0, wide = 0;
};
spread spread_of(std::span<const double> values);
double median_of(std::vector<double> values);

}  // namespace synthetic

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run leaves behind for the process that started it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace synthetic {

/// Of rank 0, but for `wrong`. Seconds; of steps: means without the first.
struct outcome {
  double start_up = 0;      ///< until all ranks have their buckets planned and their parameters equal
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

/// A mean, and what 1.96 standard deviations of one value are.
struct spread {
  double mean = 0, wide = 0;
};
spread spread_of(std::span<const double> values);

}  // namespace synthetic

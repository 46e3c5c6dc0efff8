// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan: cells, and the contestants of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kolo_bench {

/// The parameters that all contestants of a comparison share.
struct cell {
  std::string collective;
  std::uint64_t bytes;  ///< of the vector; allgather, gather, scatter: of one rank's part
  int ranks;
  std::string element, place, mode;
  bool operator==(const cell&) const = default;
};

/// A cell, and kolo's algorithms and kinds of buffers in it; peers always take part.
struct comparison {
  cell where;
  std::vector<std::string> algorithms;  ///< of kolo; empty: all
  std::vector<std::string> buffers;
  std::vector<std::string> implementations;  ///< empty: all
};

struct plan {
  int rounds = 5;
  double burst_milliseconds = 15;  ///< the time limit of one burst
  double row_seconds =
      60;  ///< the time limit of one contestant in a cell; a slower one gets fewer bursts, of fewer calls
  std::vector<comparison> comparisons{};
};

/// Reads a file of the directory `plans`: JSON with comments. The lists in an entry multiply each other; no cell may be in two entries.
plan read_plan(const std::string& file);

}  // namespace kolo_bench

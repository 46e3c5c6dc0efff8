// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is measured: cells, and for each of them who takes part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kolo_bench {

/// What all contestants of a comparison have in common.
struct cell {
  std::string collective;
  std::uint64_t bytes;  ///< of the vector; allgather, gather, scatter: of one rank's part
  int ranks;
  std::string element, place, mode;
  bool operator==(const cell&) const = default;
};

/// A cell, and which of kolo's algorithms and kinds of buffers take part; peers always do.
struct comparison {
  cell where;
  std::vector<std::string> algorithms;  ///< of kolo; empty: all
  std::vector<std::string> buffers;
  std::vector<std::string> implementations;  ///< empty: all
};

struct plan {
  int rounds = 5;
  double burst_milliseconds = 15;  ///< how long one burst may take
  double row_seconds =
      60;  ///< how long one contestant may take in a cell; who is slower gets fewer bursts, of fewer calls
  std::vector<comparison> comparisons{};
};

/// Reads a file of the directory `plans`: JSON with comments. Every list in an entry multiplies the others; no cell may be in two entries.
plan read_plan(const std::string& file);

}  // namespace kolo_bench

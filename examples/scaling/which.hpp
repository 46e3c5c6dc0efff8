// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fastest algorithm for each range of sizes on a described network.
#pragma once

#include <kolo/schedule/schedule.hpp>
#include <kolo/simulate/network.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace scaling {

/// A range of sizes, from `first` to `last`, for which one algorithm is the fastest.
struct size_range {
  struct end {
    std::size_t bytes;
    double seconds, bound;
  };
  std::string algorithm;
  end first, last;
};

/// For all powers of two from 4 bytes to 1 GiB: sizes of the vector; in an allgather, of all parts together.
std::vector<size_range> ranges(kolo::kind, int ranks, const kolo::simulate::network&);

/// Prints the tables for allreduce, broadcast and allgather.
void print_which(int ranks, const kolo::simulate::network&, const std::string& network_file);

}  // namespace scaling

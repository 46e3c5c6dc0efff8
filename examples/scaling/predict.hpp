// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fastest algorithm on a described network, and a lower bound for all algorithms.
#pragma once

#include <kolo/schedule/schedule.hpp>
#include <kolo/simulate/network.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace scaling {

struct prediction {
  std::string algorithm;  ///< as in C++; the nodes of a two_level are those of the network
  double seconds = 0;
};

/// The seconds of algorithms for fewer bytes, by name.
using seconds_before = std::map<std::string, double>;

/// The names of all algorithms that are simulated on this network: those of the catalogue, some of them with several numbers of segments.
std::vector<std::string> algorithms_for(kolo::kind, const kolo::simulate::network&);

/// The fastest algorithm; of equally fast ones the first in the catalogue. `only`, if not empty: simulate the algorithm of this name only. `before`, if
/// not null: skip algorithms that were clearly slower for fewer bytes, and store the new times.
/// Errors  std::invalid_argument if there is no such algorithm, or it does not support this number of ranks.
prediction fastest(kolo::kind, int ranks, std::size_t bytes, const kolo::simulate::network&,
                   const std::string& only = {}, seconds_before* before = nullptr);

/// A lower bound of the seconds of any algorithm: the latency of a message, and the bytes that must pass the ports of some rank or of some node. For
/// allreduce, broadcast and allgather.
double bound(kolo::kind, int ranks, std::size_t bytes, const kolo::simulate::network&);

}  // namespace scaling

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which algorithm a described network is fastest with, and what no algorithm can beat there.
#pragma once

#include <kolo/schedule/schedule.hpp>
#include <kolo/simulate/network.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace scaling {

struct prediction {
  std::string algorithm;  ///< as one writes it in C++; the nodes of a two_level are those of the network
  double seconds = 0;
};

/// The seconds that algorithms took for fewer bytes.
using seconds_before = std::map<std::string, double>;

/// The names of all that are tried on this network: those of the catalogue, some of them with several numbers of segments.
std::vector<std::string> algorithms_for(kolo::kind, const kolo::simulate::network&);

/// The fastest, of equally fast ones the first in the catalogue. `only`, where not empty, is the name of the one that is asked for. `before`, where
/// it is given, spares those that took clearly longer for fewer bytes, and learns.
/// Errors  std::invalid_argument where there is no such algorithm, or it does not support so many ranks.
prediction fastest(kolo::kind, int ranks, std::size_t bytes, const kolo::simulate::network&,
                   const std::string& only = {}, seconds_before* before = nullptr);

/// Seconds that no algorithm undercuts: the cheapest message there is, and the bytes that must pass the ports of some rank, or the way out of some
/// node. For allreduce, broadcast and allgather.
double bound(kolo::kind, int ranks, std::size_t bytes, const kolo::simulate::network&);

}  // namespace scaling

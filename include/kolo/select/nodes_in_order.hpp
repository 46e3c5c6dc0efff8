// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts node numbers, one per rank, to a `two_level` topology.
#pragma once

#include <kolo/schedule/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::select {

/// `nodes`: the node number of each rank; `called`: what the numbers are of. Returns a sentence that says why two_level
/// cannot use them, or an empty string.
[[gnu::cold, gnu::noinline]] inline std::string nodes_in_order(const std::vector<int>& nodes, topology& found,
                                                               const std::string& called = "node") {
  std::vector<int> earlier, sizes;
  for (std::size_t r = 0; r < nodes.size(); ++r) {
    if (r > 0 && nodes[r] == nodes[r - 1]) {
      ++sizes.back();
      continue;
    }
    if (std::find(earlier.begin(), earlier.end(), nodes[r]) != earlier.end())
      return "ranks are not numbered " + called + " by " + called + ": rank " + std::to_string(r) +
             " is on an earlier " + called + " than rank " + std::to_string(r - 1) +
             (called == "node" ? "; comm.split(0, comm.node_rank()) numbers them so"
                               : "; bind them in the order of their ranks, or number them by comm.split");
    earlier.push_back(nodes[r]);
    sizes.push_back(1);
  }
  found = {};
  found.ranks_per_node = sizes[0];
  const bool are_equal =
      std::all_of(sizes.begin(), sizes.end() - 1, [&](int n) { return n == sizes[0]; }) && sizes.back() <= sizes[0];
  if (are_equal) return {};
  if (sizes.size() > std::size_t(topology::most_nodes))
    return called + "s with different numbers of ranks can be at most " + std::to_string(topology::most_nodes) +
           ", not " + std::to_string(sizes.size());
  found.ranks_per_node = 0;
  for (std::size_t n = 0; n < sizes.size(); ++n) found.sizes[n] = std::uint16_t(sizes[n]);
  return {};
}

}  // namespace kolo::inline KOLO_ABI::detail::select

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The nodes of a communicator's ranks, in the words of `two_level`.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/schedule/topology.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace kolo::inline v0 {

namespace detail {

/// `nodes`: of each rank the number of its node. Why two_level cannot have them, in a sentence, or nothing.
inline std::string nodes_in_order(const std::vector<int>& nodes, topology& found) {
  std::vector<int> seen, sizes;
  for (std::size_t r = 0; r < nodes.size(); ++r) {
    if (r > 0 && nodes[r] == nodes[r - 1]) {
      ++sizes.back();
      continue;
    }
    if (std::find(seen.begin(), seen.end(), nodes[r]) != seen.end())
      return "ranks are not numbered node by node: rank " + std::to_string(r) + " is on an earlier node than rank " + std::to_string(r - 1) +
             "; comm.split(0, comm.node_rank()) numbers them so";
    seen.push_back(nodes[r]);
    sizes.push_back(1);
  }
  found = {};
  found.ranks_per_node = sizes[0];
  const bool are_equal = std::all_of(sizes.begin(), sizes.end() - 1, [&](int n) { return n == sizes[0]; }) && sizes.back() <= sizes[0];
  if (are_equal) return {};
  if (sizes.size() > static_cast<std::size_t>(topology::most_nodes))
    return "nodes with different numbers of ranks can be at most " + std::to_string(topology::most_nodes) + ", not " + std::to_string(sizes.size());
  found.ranks_per_node = 0;
  for (std::size_t n = 0; n < sizes.size(); ++n) found.sizes[n] = static_cast<std::uint16_t>(sizes[n]);
  return {};
}

/// Each rank's node, told on the host; what was started before is waited for where the communicator is for device views.
template <class C>
std::vector<int> nodes_of(C& comm) {
  std::vector<int> nodes(static_cast<std::size_t>(comm.size()));
  const int mine[] = {comm.node_rank()};
  if constexpr (space_of<typename C::transport_type> == memory_space::host) {
    kolo::allgather(comm, mine, nodes);
  } else {
    comm.engine()->finish_all();
    auto& wire = comm.transport();
    if constexpr (requires { wire.nodes(); }) {
      nodes = wire.nodes();
    } else {
      nodes[static_cast<std::size_t>(comm.rank())] = mine[0];
      share(host_wire_of(wire), nodes.data(), sizeof(int));
    }
  }
  return nodes;
}

}  // namespace detail

/// Collective: which ranks share a node, for `kolo::two_level<>{.nodes = kolo::topology_of(comm)}`; the same on every rank.
/// Cost    an allgather of one int.
/// Errors  invalid_argument, on every rank: ranks are not numbered node by node; more nodes of different sizes than a topology holds.
template <Communicator C>
topology topology_of(C& comm) {
  topology found;
  if (const auto wrong = detail::nodes_in_order(detail::nodes_of(comm), found); !wrong.empty()) throw error{errc::invalid_argument, wrong};
  return found;
}

}  // namespace kolo::inline v0

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The nodes of a communicator's ranks, as a `two_level` topology.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/schedule/topology.hpp>
#include <kolo/select/nodes_in_order.hpp>

#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

/// The node of each rank, exchanged on the host; on a communicator for device views it waits for all started
/// operations.
template <class C>
std::vector<int> nodes_of(C& comm) {
  std::vector<int> nodes(std::size_t(comm.size()));
  const int mine[] = {comm.node_rank()};
  if constexpr (space_of<typename C::transport_type> == memory_space::host) {
    kolo::allgather(comm, mine, nodes);
  } else {
    nodes = execute::allgather_nodes(*comm.engine(), mine[0]);
  }
  return nodes;
}

}  // namespace detail::collective

/// Collective: which ranks share a node, for `kolo::two_level<>{.nodes = kolo::topology_of(comm)}`; the same on every
/// rank.
/// Cost    an allgather of one int.
/// Errors  invalid_argument, on every rank: ranks are not numbered node by node; more nodes of different sizes than a
///         topology holds.
topology topology_of(Communicator auto& comm) {
  topology found;
  if (const auto wrong = detail::select::nodes_in_order(detail::collective::nodes_of(comm), found); !wrong.empty())
    throw error{errc::invalid_argument, wrong};
  return found;
}

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The nodes of a communicator's ranks, or the parts of a host in which they run, as a `two_level` topology.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/os/cores.hpp>
#include <kolo/schedule/bruck.hpp>
#include <kolo/schedule/topology.hpp>
#include <kolo/select/nodes_in_order.hpp>

#include <vector>

namespace kolo::inline KOLO_ABI {

/// What ranks share: a node; the memory of a NUMA node; the last level of cache (on most processors L3).
enum class locality { node, numa_node, cache };

namespace detail::collective {

/// The number of each rank, exchanged on the host; on a communicator for device views it waits for all started
/// operations.
template <class C>
std::vector<int> numbers_of(C& comm, int mine, [[maybe_unused]] locality by) {
  std::vector<int> numbers(std::size_t(comm.size()));
  if constexpr (space_of<typename C::transport_type> == memory_space::host) {
    kolo::allgather(comm, std::span<const int>{&mine, 1}, numbers, bruck{});  // named: a fit may follow
  } else {
    if (by != locality::node)
      comm.engine()->refuse("topology_of", "views of devices lie in no cache or NUMA node; pass locality::node");
    numbers = execute::allgather_nodes(*comm.engine(), mine);
  }
  return numbers;
}

/// Ranks with equal numbers share what `by` names; -1: this rank is bound to none.
topology topology_by(auto& comm, int mine, locality by) {
  const auto numbers = numbers_of(comm, mine, by);
  const char* const called = by == locality::node ? "node" : by == locality::numa_node ? "NUMA node" : "cache";
  for (std::size_t r = 0; r < numbers.size(); ++r)
    if (numbers[r] < 0)
      core::throw_error(errc::invalid_argument,
                        {"rank ", r, " may use cores of more than one ", called,
                         ", or its system does not report them; bind ranks (taskset, numactl, mpiexec -bind-to)"});
  topology found;
  if (const auto wrong = select::nodes_in_order(numbers, found, called); !wrong.empty())
    throw error{errc::invalid_argument, wrong};
  return found;
}

}  // namespace detail::collective

/// Collective: which ranks share a node, or within nodes a NUMA node or a cache, for
/// `kolo::two_level<>{.nodes = kolo::topology_of(comm)}` and for `kolo::fit`; the same on every rank. Linux reports the
/// caches and NUMA nodes of the cores to which a rank is bound.
/// Cost    an allgather of one int.
/// Errors  invalid_argument, on every rank: ranks are not numbered node by node (NUMA node by NUMA node, ...); more
///         nodes of different sizes than a topology holds; a rank is bound to no single NUMA node or cache; a NUMA node
///         or cache of a communicator for device views.
topology topology_of(Communicator auto& comm, locality by = locality::node) {
  int mine = comm.node_rank();
  if (by != locality::node) {
    cpu_set_t cores;
    const int lowest = ::sched_getaffinity(0, sizeof cores, &cores) == 0
                           ? detail::os::lowest_core_sharing(cores, by == locality::numa_node)
                           : -1;
    mine = lowest < 0 ? -1 : mine * CPU_SETSIZE + lowest;
  }
  return detail::collective::topology_by(comm, mine, by);
}

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks share a host: of each rank, the lowest rank on its host, which stands for the host.
#pragma once

#include <kolo/transport/mpi/calls.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>

namespace kolo::inline v0::mpi::detail {

/// Collective; hosts may have different numbers of ranks.
inline std::vector<int> hosts_of(const handle& all, int rank, int size) {
  std::vector<int> lowest(static_cast<std::size_t>(size));
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split_type(all.get(), MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &comm), "MPI_Comm_split_type", rank);
  const handle host{comm};
  int first = rank;
  check(MPI_Bcast(&first, 1, MPI_INT, 0, host.get()), "MPI_Bcast", rank);
  check(MPI_Allgather(&first, 1, MPI_INT, lowest.data(), 1, MPI_INT, all.get()), "MPI_Allgather", rank);
  return lowest;
}

/// Neighbours, so many at a time.
inline std::vector<int> groups_of(int size, int ranks_per_node) {
  std::vector<int> lowest;
  for (int r = 0; r < size; ++r) lowest.push_back(r - r % ranks_per_node);
  return lowest;
}

/// The same for some of the ranks, in another order.
inline std::vector<int> nodes_among(const std::vector<int>& nodes, const std::vector<int>& members) {
  std::vector<int> lowest;
  for (const int member : members) {
    const auto same = [&](int other) { return nodes[static_cast<std::size_t>(other)] == nodes[static_cast<std::size_t>(member)]; };
    lowest.push_back(static_cast<int>(std::find_if(members.begin(), members.end(), same) - members.begin()));
  }
  return lowest;
}

inline placement place_in(const std::vector<int>& nodes, int rank) {
  placement p{0, 0, 0, 0};
  const int mine = nodes[static_cast<std::size_t>(rank)];
  for (int r = 0; r < static_cast<int>(nodes.size()); ++r) {
    const int node = nodes[static_cast<std::size_t>(r)];
    p.local_size += node == mine ? 1 : 0;
    p.local_rank += node == mine && r < rank ? 1 : 0;
    p.node_count += node == r ? 1 : 0;
    p.node_rank += node == r && r < mine ? 1 : 0;
  }
  return p;
}

}  // namespace kolo::inline v0::mpi::detail

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks share a host, as MPI reports it.
#pragma once

#include <kolo/mpi/handles.hpp>
#include <kolo/transport/node_map.hpp>

#include <vector>

namespace kolo::inline KOLO_ABI::detail::mpi {

/// Collective; hosts may have different numbers of ranks.
inline transport::node_map hosts_of(const handle& all, int rank, int size) {
  std::vector<int> lowest(static_cast<std::size_t>(size));
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split_type(all.get(), MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &comm), "MPI_Comm_split_type", rank);
  const handle host{comm};
  int first = rank;
  check(MPI_Bcast(&first, 1, MPI_INT, 0, host.get()), "MPI_Bcast", rank);
  check(MPI_Allgather(&first, 1, MPI_INT, lowest.data(), 1, MPI_INT, all.get()), "MPI_Allgather", rank);
  return transport::node_map{lowest};
}

}  // namespace kolo::inline KOLO_ABI::detail::mpi

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libkolo_mpi.so: preloaded under an MPI program, it runs the program's collectives by kolo's algorithms, through MPI's profiling interface.
//
// It leaves to MPI: intercommunicators, communicators with processes of another MPI_COMM_WORLD, operators on datatypes with gaps. Such a decision depends
// only on what is equal on all ranks, so all of them leave the same calls. A fault in a rank's own arguments is reported with MPI's error class, without
// effect on other ranks. Environment: KOLO_MPI_REPORT=1 prints at the end which calls kolo ran, and which MPI; KOLO_MPI_TIMEOUT: a deadline in seconds for
// waiting, which in MPI has none. MPI_Init and the first collective of a communicator synchronise its ranks.
#include "collectives.hpp"

namespace {

/// Prints the report if MPI_Finalize was not seen: programs with sessions only, or in Fortran under Open MPI. Not if MPI was not finalized.
[[gnu::destructor]] void report_at_exit() {
  int begun = 0, over = 0;
  if (PMPI_Initialized(&begun) == MPI_SUCCESS && begun != 0 && PMPI_Finalized(&over) == MPI_SUCCESS && over == 0)
    return;
  under_mpi::registry::all().report();
}

}  // namespace

using kolo::kind;
using under_mpi::function;

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  const int code = PMPI_Init(argc, argv);
  if (code == MPI_SUCCESS) under_mpi::registry::all().begin();
  return code;
}
int MPI_Init_thread(int* argc, char*** argv, int wanted, int* provided) {
  const int code = PMPI_Init_thread(argc, argv, wanted, provided);
  if (code == MPI_SUCCESS) under_mpi::registry::all().begin();
  return code;
}

int MPI_Allreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return under_mpi::reduced_everywhere<kind::allreduce>(function::allreduce, in, out, n, type, op, comm,
                                                        [&] { return PMPI_Allreduce(in, out, n, type, op, comm); });
}
int MPI_Scan(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return under_mpi::reduced_everywhere<kind::scan>(function::scan, in, out, n, type, op, comm,
                                                   [&] { return PMPI_Scan(in, out, n, type, op, comm); });
}
int MPI_Reduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  return under_mpi::reduce(in, out, n, type, op, root, comm,
                           [&] { return PMPI_Reduce(in, out, n, type, op, root, comm); });
}
int MPI_Reduce_scatter_block(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return under_mpi::reduce_scatter_block(in, out, n, type, op, comm,
                                         [&] { return PMPI_Reduce_scatter_block(in, out, n, type, op, comm); });
}
int MPI_Reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return under_mpi::reduce_scatter(in, out, counts, type, op, comm,
                                   [&] { return PMPI_Reduce_scatter(in, out, counts, type, op, comm); });
}
int MPI_Bcast(void* data, int n, MPI_Datatype type, int root, MPI_Comm comm) {
  return under_mpi::broadcast(data, n, type, root, comm, [&] { return PMPI_Bcast(data, n, type, root, comm); });
}
int MPI_Allgather(const void* in, int n, MPI_Datatype in_type, void* out, int out_n, MPI_Datatype type, MPI_Comm comm) {
  return under_mpi::allgather(in, n, in_type, out, out_n, type, comm,
                              [&] { return PMPI_Allgather(in, n, in_type, out, out_n, type, comm); });
}
int MPI_Allgatherv(const void* in, int n, MPI_Datatype in_type, void* out, const int counts[], const int places[],
                   MPI_Datatype type, MPI_Comm comm) {
  return under_mpi::allgatherv(in, n, in_type, out, counts, places, type, comm,
                               [&] { return PMPI_Allgatherv(in, n, in_type, out, counts, places, type, comm); });
}
int MPI_Alltoall(const void* in, int n, MPI_Datatype in_type, void* out, int out_n, MPI_Datatype type, MPI_Comm comm) {
  return under_mpi::alltoall(in, n, in_type, out, out_n, type, comm,
                             [&] { return PMPI_Alltoall(in, n, in_type, out, out_n, type, comm); });
}
int MPI_Barrier(MPI_Comm comm) {
  return under_mpi::call(
      function::barrier, comm, [](const under_mpi::entry&) { return MPI_SUCCESS; },
      [](under_mpi::communicator& c) { kolo::barrier(c); }, [&] { return PMPI_Barrier(comm); });
}

#if MPI_VERSION >= 4

int MPI_Allreduce_c(const void* in, void* out, MPI_Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return under_mpi::reduced_everywhere<kind::allreduce>(function::allreduce, in, out, n, type, op, comm,
                                                        [&] { return PMPI_Allreduce_c(in, out, n, type, op, comm); });
}
int MPI_Scan_c(const void* in, void* out, MPI_Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return under_mpi::reduced_everywhere<kind::scan>(function::scan, in, out, n, type, op, comm,
                                                   [&] { return PMPI_Scan_c(in, out, n, type, op, comm); });
}
int MPI_Reduce_c(const void* in, void* out, MPI_Count n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  return under_mpi::reduce(in, out, n, type, op, root, comm,
                           [&] { return PMPI_Reduce_c(in, out, n, type, op, root, comm); });
}
int MPI_Reduce_scatter_block_c(const void* in, void* out, MPI_Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return under_mpi::reduce_scatter_block(in, out, n, type, op, comm,
                                         [&] { return PMPI_Reduce_scatter_block_c(in, out, n, type, op, comm); });
}
int MPI_Reduce_scatter_c(const void* in, void* out, const MPI_Count counts[], MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm) {
  return under_mpi::reduce_scatter(in, out, counts, type, op, comm,
                                   [&] { return PMPI_Reduce_scatter_c(in, out, counts, type, op, comm); });
}
int MPI_Bcast_c(void* data, MPI_Count n, MPI_Datatype type, int root, MPI_Comm comm) {
  return under_mpi::broadcast(data, n, type, root, comm, [&] { return PMPI_Bcast_c(data, n, type, root, comm); });
}
int MPI_Allgather_c(const void* in, MPI_Count n, MPI_Datatype in_type, void* out, MPI_Count out_n, MPI_Datatype type,
                    MPI_Comm comm) {
  return under_mpi::allgather(in, n, in_type, out, out_n, type, comm,
                              [&] { return PMPI_Allgather_c(in, n, in_type, out, out_n, type, comm); });
}
int MPI_Allgatherv_c(const void* in, MPI_Count n, MPI_Datatype in_type, void* out, const MPI_Count counts[],
                     const MPI_Aint places[], MPI_Datatype type, MPI_Comm comm) {
  return under_mpi::allgatherv(in, n, in_type, out, counts, places, type, comm,
                               [&] { return PMPI_Allgatherv_c(in, n, in_type, out, counts, places, type, comm); });
}
int MPI_Alltoall_c(const void* in, MPI_Count n, MPI_Datatype in_type, void* out, MPI_Count out_n, MPI_Datatype type,
                   MPI_Comm comm) {
  return under_mpi::alltoall(in, n, in_type, out, out_n, type, comm,
                             [&] { return PMPI_Alltoall_c(in, n, in_type, out, out_n, type, comm); });
}

#endif

}  // extern "C"

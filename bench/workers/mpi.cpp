// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The groups `mpich` and `openmpi`: MPI without kolo.
#include "mpi_backend.hpp"

#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    kolo_bench::mpi_backend backend;
    kolo_bench::worker{backend}.serve();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI, whose C headers have only declarations: one allreduce.
#include <mpi.h>

#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<float> gradient(1'000'000, 1.0f);
  MPI_Allreduce(MPI_IN_PLACE, gradient.data(), 1'000'000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
}

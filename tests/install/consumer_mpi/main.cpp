// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The smallest program over MPI: it shows that the target has all that it needs.
#include <kolo/mpi/mpi.hpp>

#include <vector>

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  kolo::mpi::communicator comm{MPI_COMM_WORLD};
  std::vector<int> x(1000, 1);
  kolo::allreduce(comm, x, kolo::sum);
  return x[999] == comm.size() ? 0 : 1;
}

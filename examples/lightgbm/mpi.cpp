// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank of LightGBM's training over MPI; the program lightgbm runs mpiexec with it.
// Usage: lightgbm_mpi OUTCOME LIBRARY FEATURES ROUNDS ROWS DIES     OUTCOME: file for the results; DIES: rank that is killed, or -1
#include "training.hpp"

#include <kolo/mpi/mpi.hpp>

#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 7) return std::fprintf(stderr, "usage: lightgbm_mpi OUTCOME LIBRARY FEATURES ROUNDS ROWS DIES\n"), 2;
  const lightgbm::settings s{argv[2], std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5])};
  lightgbm::now = lightgbm::shared(::open(argv[1], O_RDWR));
  const kolo::mpi::environment env{argc, argv};
  kolo::mpi::communicator comm{MPI_COMM_WORLD};
  const int status = lightgbm::outcome_of(comm.rank(), [&] { lightgbm::train_over(comm, s, std::atoi(argv[6])); });
  if (status != 0) ::_exit(status);  // MPI_Finalize would wait for the dead rank
  return status;
}

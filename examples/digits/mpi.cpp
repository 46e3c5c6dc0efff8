// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same training on the ranks of an MPI job, on one host or several: the same function over another communicator.
#include "joined.hpp"

#include <kolo/mpi/mpi.hpp>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  const auto settings = digits::parse(argc, argv);  // a wrong command line ends the program before MPI_Init
  const kolo::mpi::environment env{argc, argv};
  try {
    kolo::mpi::communicator comm{MPI_COMM_WORLD};
    return digits::train_joined(comm, settings);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "digits: %s\n", e.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every reducing collective, by every algorithm, over MPI: the tests that run over threads too.
#include "collectives/every_reduction.hpp"
#include "mpi/every_size.hpp"

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  testing::mpi_world world;
  testing::every_size(world, "allreduce",
                      [](auto& comm, auto& wrong, std::size_t n) { every_allreduce(comm, wrong, n); });
  testing::every_size(world, "reduce", [](auto& comm, auto& wrong, std::size_t n) { every_reduce(comm, wrong, n); });
  testing::every_size(world, "reduce_scatter",
                      [](auto& comm, auto& wrong, std::size_t n) { every_reduce_scatter(comm, wrong, n); });
  testing::every_size(world, "scans", [](auto& comm, auto& wrong, std::size_t n) { every_scan(comm, wrong, n); });
  return world.status();
}

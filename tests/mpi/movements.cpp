// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective that only moves elements, by every algorithm, over MPI: the same tests as over threads.
#include "collectives/every_movement.hpp"
#include "collectives/pairs.hpp"
#include "collectives/permutations.hpp"
#include "mpi/every_size.hpp"

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  testing::mpi_world world;
  testing::every_size(world, "broadcast",
                      [](auto& comm, auto& wrong, std::size_t n) { every_broadcast(comm, wrong, n); });
  testing::every_size(world, "allgather",
                      [](auto& comm, auto& wrong, std::size_t n) { every_allgather(comm, wrong, n); });
  testing::every_size(world, "gather and scatter",
                      [](auto& comm, auto& wrong, std::size_t n) { every_gather_and_scatter(comm, wrong, n); });
  testing::every_size(world, "alltoall and barrier", [](auto& comm, auto& wrong, std::size_t n) {
    every_alltoall(comm, wrong, n);
    kolo::barrier(comm);
  });
  testing::every_size(world, "shift and permute",
                      [](auto& comm, auto& wrong, std::size_t n) { testing::every_permutation(comm, wrong, n); });
  testing::every_size(world, "send, receive and exchange",
                      [](auto& comm, auto& wrong, std::size_t n) { testing::every_pair(comm, wrong, n); });
  return world.status();
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective that only moves elements, by every algorithm, over MPI: the tests that run over threads too.
#include "collectives/every_movement.hpp"
#include "collectives/pairs.hpp"
#include "collectives/permutations.hpp"
#include "mpi/every_size.hpp"

#include <chrono>
#include <vector>

namespace {

/// Rank 0 waits in a send; what arrives from rank 1 meanwhile belongs to the next call, after any time.
void is_for_a_later_call(kolo::mpi::communicator& comm, testing::complaints& wrong) {
  constexpr auto timeout = std::chrono::seconds{2};
  const std::vector<int> all = testing::message(0, 1, 0, 1 << 20), few = testing::message(1, 0, 0, 3);
  std::vector<int> big(all.size()), small(few.size());
  if (comm.rank() == 0) {
    kolo::send(comm, all, 1, {.timeout = timeout});
    kolo::receive(comm, small, 1);
    testing::expect_same(wrong, "sent while the peer sends", 0, small, few);
  } else if (comm.rank() == 1) {
    auto sent = kolo::start_send(comm, few, 0);
    const auto computed = std::chrono::steady_clock::now() + timeout * 2 / 3;
    while (std::chrono::steady_clock::now() < computed) sent.test();
    kolo::receive(comm, big, 0);
    sent.wait();
    testing::expect_same(wrong, "received after a send was started", 1, big, all);
  }
}

}  // namespace

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
  if (world.size() == 2)
    world.run("a message for a later call", [](testing::complaints& wrong) {
      kolo::mpi::communicator comm{MPI_COMM_WORLD};
      is_for_a_later_call(comm, wrong);
    });
  return world.status();
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective that moves elements, by every algorithm, through the device executor: runs tests/collectives.
#include "collectives/every_movement.hpp"
#include "collectives/pairs.hpp"
#include "cuda/both_routes.hpp"

using namespace testing;

TEST_CASE("device: broadcast") {
  on_both_routes([](auto& comm, complaints& wrong, std::size_t n) { every_broadcast(comm, wrong, n); });
}
TEST_CASE("device: allgather") {
  on_both_routes([](auto& comm, complaints& wrong, std::size_t n) { every_allgather(comm, wrong, n); });
}
TEST_CASE("device: gather and scatter") {
  on_both_routes([](auto& comm, complaints& wrong, std::size_t n) { every_gather_and_scatter(comm, wrong, n); });
}
TEST_CASE("device: alltoall and barrier") {
  on_both_routes([](auto& comm, complaints& wrong, std::size_t n) {
    every_alltoall(comm, wrong, n);
    kolo::barrier(comm);
  });
}
TEST_CASE("device: send, receive and exchange") {
  on_both_routes([](auto& comm, complaints& wrong, std::size_t n) {
    every_pair(comm, wrong, n);
    every_pair(comm, wrong, 0);
  });
}

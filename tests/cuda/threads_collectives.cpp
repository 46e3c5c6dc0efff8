// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective, by every algorithm, between devices of one process: the same tests as on the host.
#include "collectives/every_movement.hpp"
#include "collectives/every_reduction.hpp"
#include "cuda/threads_ranks.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

template <class F>
void for_every_size(F each) {
  for (const int p : {1, 2, 3, 4, 5, 6, 7, 8})
    CHECK(on_ranks<over_devices>(p, [&](auto& comm, complaints& wrong) { each(comm, wrong, 101); }) == "");
  CHECK(on_ranks<over_devices>(3, [&](auto& comm, complaints& wrong) { each(comm, wrong, 211); }, small_slot) == "");
}

}  // namespace

TEST_CASE("device threads: what combines") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) {
    every_allreduce(comm, wrong, n);
    every_reduce(comm, wrong, n);
    every_reduce_scatter(comm, wrong, n);
    every_scan(comm, wrong, n);
  });
}
TEST_CASE("device threads: what moves") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) {
    every_broadcast(comm, wrong, n);
    every_allgather(comm, wrong, n);
    every_gather_and_scatter(comm, wrong, n);
    every_alltoall(comm, wrong, n);
    kolo::barrier(comm);
  });
}

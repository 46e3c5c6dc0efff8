// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives by every algorithm between devices of several processes: those parts of tests/collectives that cover most of the transport.
#include "collectives/every_movement.hpp"
#include "collectives/every_reduction.hpp"
#include "collectives/pairs.hpp"
#include "cuda/shm_ranks.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

template <class F>
void for_every_size(F each) {
  cuda_double::the.takes_all_memory = true;
  for (const int p : {1, 2, 3, 4})
    CHECK(on_device_processes<settled_shm>(p, [&](auto& comm, complaints& wrong) { each(comm, wrong, 101); }).said ==
          all_say(p, ""));
  CHECK(on_device_processes<settled_shm>(
            3, [&](auto& comm, complaints& wrong) { each(comm, wrong, 211); }, small_slot)
            .said == all_say(3, ""));
}

}  // namespace

TEST_CASE("device processes: allreduce") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) { every_allreduce(comm, wrong, n); });
}
TEST_CASE("device processes: broadcast, alltoall, barrier and pairs") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) {
    every_broadcast(comm, wrong, n);
    every_alltoall(comm, wrong, n);
    kolo::barrier(comm);
    every_pair(comm, wrong, n);
  });
}

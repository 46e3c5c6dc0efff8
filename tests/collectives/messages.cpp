// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All collectives over a message transport, as over MPI.
#include "collectives/every_movement.hpp"
#include "collectives/every_reduction.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

template <class F>
void for_every_size(F each) {
  for (const int p : rank_counts) {
    CHECK(on_ranks<over_messages>(p, [&](auto& comm, complaints& wrong) {
            for (const auto n : counts_for(comm.size()))
              if (p < 8 || n > 1) each(comm, wrong, n < 1000 || p < 8 ? n : 101);
          }) == "");
  }
  for (const int p : {2, 3, 5, 8})
    CHECK(on_ranks<over_messages>(
              p, [&](auto& comm, complaints& wrong) { each(comm, wrong, 211); }, small_slot) == "");
}

}  // namespace

TEST_CASE("messages: allreduce") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) { every_allreduce(comm, wrong, n); });
}
TEST_CASE("messages: reduce") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) { every_reduce(comm, wrong, n); });
}
TEST_CASE("messages: reduce_scatter") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) { every_reduce_scatter(comm, wrong, n); });
}
TEST_CASE("messages: scans") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) { every_scan(comm, wrong, n); });
}
TEST_CASE("messages: broadcast") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) { every_broadcast(comm, wrong, n); });
}
TEST_CASE("messages: allgather") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) { every_allgather(comm, wrong, n); });
}
TEST_CASE("messages: gather and scatter") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) { every_gather_and_scatter(comm, wrong, n); });
}
TEST_CASE("messages: alltoall and barrier") {
  for_every_size([](auto& comm, complaints& wrong, std::size_t n) {
    every_alltoall(comm, wrong, n);
    kolo::barrier(comm);
  });
}

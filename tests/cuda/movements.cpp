// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective that moves, by every algorithm, with the hands of a device: the same tests as on the host.
#include "collectives/every_movement.hpp"
#include "cuda/on_double.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

template <kolo::cuda::route Route, class F>
void for_every_size(F each) {
  for (const int p : {1, 2, 3, 4, 5, 8})
    CHECK(on_ranks<over_device<Route>>(p, [&](auto& comm, complaints& wrong) { each(comm, wrong, 101); }) == "");
  CHECK(on_ranks<over_device<Route>>(3, [&](auto& comm, complaints& wrong) { each(comm, wrong, 211); }, small_slot) == "");
}
template <class F>
void on_both_routes(F each) {
  for_every_size<kolo::cuda::route::staged>(each);
  for_every_size<kolo::cuda::route::straight>(each);
}

}  // namespace

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

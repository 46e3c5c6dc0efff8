// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective that combines, by every algorithm, with the hands of a device: the same tests as on the host.
#include "collectives/every_reduction.hpp"
#include "cuda/both_routes.hpp"

using namespace testing;

TEST_CASE("device: allreduce") {
  on_both_routes([](auto& comm, complaints& wrong, std::size_t n) { every_allreduce(comm, wrong, n); });
}
TEST_CASE("device: reduce") {
  on_both_routes([](auto& comm, complaints& wrong, std::size_t n) { every_reduce(comm, wrong, n); });
}
TEST_CASE("device: reduce_scatter") {
  on_both_routes([](auto& comm, complaints& wrong, std::size_t n) { every_reduce_scatter(comm, wrong, n); });
}
TEST_CASE("device: scans") {
  on_both_routes([](auto& comm, complaints& wrong, std::size_t n) { every_scan(comm, wrong, n); });
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every reducing collective, by every algorithm, through the device executor: runs tests/collectives.
#include <cmath>

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

namespace {
struct root_of_sum {
  float operator()(float a, float b) const { return a + b; }
  float finish(float x, int) const { return std::sqrt(x); }
};
}  // namespace

TEST_CASE("device: an operator's finish is applied on any number of ranks, also on one") {
  for (const int p : {1, 2, 4})
    CHECK(on_ranks<over_device<kolo::cuda::route::straight>>(p, [](auto& comm, complaints& wrong) {
            std::vector<float> x(24, 16.0F / static_cast<float>(comm.size()));
            kolo::allreduce(comm, x, root_of_sum{});
            expect_same(wrong, "allreduce", comm.rank(), x, std::vector<float>(24, 4.0F));
          }) == "");
}

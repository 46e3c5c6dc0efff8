// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// allreduce by every algorithm, on 1 to 17 ranks, for every kind of count.
#include "collectives/every_reduction.hpp"
#include "support/catch.hpp"

using namespace testing;

TEST_CASE("allreduce: each algorithm gives each rank the combination of all, in rank order if the order matters") {
  for (const int p : rank_counts)
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            for (const auto n : counts_for(comm.size())) every_allreduce(comm, wrong, n);
          }) == "");
}

TEST_CASE("allreduce: a vector longer than a slot is cut") {
  for (const int p : rank_counts)
    CHECK(on_ranks(
              p, [](auto& comm, complaints& wrong) { every_allreduce(comm, wrong, 1009); }, small_slot) == "");
}

TEST_CASE("allreduce: a vector larger than the caches is summed") {
  CHECK(on_ranks(2, [](auto& comm, complaints& wrong) {
          std::vector<int> x(9'000'001, comm.rank() + 1);
          x.front() = x.back() = 100 * comm.rank();
          kolo::allreduce(comm, x, kolo::sum);
          kolo::allreduce(comm, x, kolo::max, kolo::ring{});
          const auto threes = std::count(x.begin() + 1, x.end() - 1, 3);
          wrong.expect(x.front() == 100 && x.back() == 100 && threes == 8'999'999, "allreduce of 36 MB");
        }) == "");
}

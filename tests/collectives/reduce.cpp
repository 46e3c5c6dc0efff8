// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// reduce, reduce_scatter and the scans by each algorithm, on 1 to 17 ranks, with each root and kind of count.
#include "collectives/every_reduction.hpp"
#include "support/catch.hpp"

using namespace testing;

TEST_CASE("reduce: each algorithm gives the root the combination of all, in rank order if the order matters") {
  for (const int p : rank_counts)
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            for (const auto n : counts_for(comm.size())) every_reduce(comm, wrong, n);
          }) == "");
}

TEST_CASE("reduce_scatter: each algorithm gives each rank its block of the combination") {
  for (const int p : rank_counts)
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            for (const auto n : counts_for(comm.size())) every_reduce_scatter(comm, wrong, n);
          }) == "");
}

TEST_CASE("scan, exclusive_scan: each algorithm gives each rank the combination of the ranks before it") {
  for (const int p : rank_counts)
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            for (const auto n : counts_for(comm.size())) every_scan(comm, wrong, n);
          }) == "");
}

TEST_CASE("reduce, reduce_scatter, scans: vectors longer than a slot are cut") {
  for (const int p : rank_counts)
    CHECK(on_ranks(
              p,
              [](auto& comm, complaints& wrong) {
                every_reduce(comm, wrong, 1009);
                every_reduce_scatter(comm, wrong, 1009);
                every_scan(comm, wrong, 1009);
              },
              small_slot) == "");
}

TEST_CASE("reduce, reduce_scatter, scans: many pieces of the usual size") {
  CHECK(on_ranks(4, [](auto& comm, complaints& wrong) {
          constexpr std::size_t n = is_sanitized ? 40'001 : 150'001;
          every_reduce(comm, wrong, n);
          every_reduce_scatter(comm, wrong, n);
          every_scan(comm, wrong, n);
        }) == "");
}

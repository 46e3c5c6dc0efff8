// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each collective, nonblocking or persistent.
#include "collectives/some_ranks.hpp"
#include "support/catch.hpp"

using namespace testing;

TEST_CASE("each collective has a nonblocking and a persistent form") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          const auto n = static_cast<std::size_t>(p);
          const auto in = start_values(r, 3 * n, 0);
          const std::vector<std::size_t> counts(n, 3);
          std::vector<int> whole(3 * n * n), mine(3), same(3 * n), before(3 * n, 1);
          kolo::start_reduce_scatter(comm, in, mine, kolo::sum).wait();
          expect_same(wrong, "reduce_scatter", r, mine, [&] {
            const auto all = sums(p, 3 * n, 0);
            return std::vector<int>(all.begin() + 3 * r, all.begin() + 3 * r + 3);
          }());
          kolo::plan_allgather(comm, mine, same, counts).run();
          expect_same(wrong, "allgather", r, same, sums(p, 3 * n, 0));
          kolo::start_gather(comm, in, whole, p - 1).wait();
          kolo::plan_scatter(comm, whole, same, p - 1).run();
          expect_same(wrong, "gather, then scatter", r, same, in);
          kolo::start_alltoall(comm, in, same).wait();
          kolo::plan_alltoall(comm, same, before).run();
          expect_same(wrong, "alltoall twice", r, before, in);
          kolo::start_reduce(comm, in, same, kolo::sum, 0).wait();
          kolo::start_scan(comm, in, before, kolo::max).wait();
          expect_same(wrong, "scan", r, before, in);
          kolo::plan_exclusive_scan(comm, in, before, kolo::max).run();
          expect_same(wrong, "exclusive_scan", r, before, start_values(std::max(r - 1, 0), 3 * n, 0));
          kolo::start_broadcast(comm, same, 0).wait();
          expect_same(wrong, "reduce and broadcast", r, same, sums(p, 3 * n, 0));
          kolo::plan_barrier(comm).run();
        }) == "");
}

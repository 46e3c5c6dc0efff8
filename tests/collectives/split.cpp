// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split: the members of each child and their order; children of children; parent and child used alternately; calls in flight.
#include "collectives/elements.hpp"
#include "collectives/ranks.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

/// The sum of the ranks' `mine`.
template <class C>
int total(C& comm, int mine) {
  kolo::allreduce(comm, std::span{&mine, 1}, kolo::sum);
  return mine;
}

}  // namespace

TEMPLATE_TEST_CASE("split: ranks of one color share a child, ordered by key", "", over_slots, over_messages) {
  for (const int p : rank_counts)
    CHECK(on_ranks<TestType>(p, [](auto& comm, complaints& wrong) {
            const int size = comm.size(), r = comm.rank();
            auto group = comm.split(r % 3, -r);
            const int members = (size - r % 3 + 2) / 3;
            wrong.expect(group.size() == members, "the child's size");
            wrong.expect(group.rank() == members - 1 - r / 3, "the child's order");
            int wanted = 0;
            for (int q = r % 3; q < size; q += 3) wanted += q;
            wrong.expect(total(group, r) == wanted, "a sum in the child");
            std::vector<int> ranks(static_cast<std::size_t>(members));
            kolo::allgather(group, std::span{&r, 1}, ranks);
            wrong.expect(std::is_sorted(ranks.rbegin(), ranks.rend()), "an allgather in the child");
          }) == "");
}

TEST_CASE("split: equal keys keep the rank order, and colors may be negative") {
  for (const int p : {1, 2, 3, 5, 8})
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            auto same = comm.split(-1, 7);
            wrong.expect(same.rank() == comm.rank() && same.size() == comm.size(), "one color");
            auto alone = comm.split(comm.rank(), 0);
            wrong.expect(alone.rank() == 0 && alone.size() == 1 && total(alone, 5) == 5, "a color for each rank");
          }) == "");
}

TEMPLATE_TEST_CASE("split: children of children, used alternately with their parents", "", over_slots, over_messages) {
  for (const int p : {2, 3, 4, 6, 8, 12})
    CHECK(on_ranks<TestType>(p, [](auto& comm, complaints& wrong) {
            const int size = comm.size(), r = comm.rank();
            auto half = comm.split(r < size / 2 ? 0 : 1, r);
            auto quarter = half.split(half.rank() % 2, -half.rank());
            for (int k = 0; k < 5; ++k) {
              wrong.expect(total(comm, r) == size * (size - 1) / 2, "all ranks");
              const int first = r < size / 2 ? 0 : size / 2, last = r < size / 2 ? size / 2 : size;
              int wanted = 0;
              for (int q = first; q < last; ++q) wanted += q;
              wrong.expect(total(half, r) == wanted, "a half");
              wanted = 0;
              for (int q = first + half.rank() % 2; q < last; q += 2) wanted += q;
              wrong.expect(total(quarter, r) == wanted, "a quarter");
            }
          }) == "");
}

TEST_CASE("split: children are created and destroyed many times") {
  CHECK(on_ranks(4, [](auto& comm, complaints& wrong) {
          for (int k = 0; k < 100; ++k) {
            auto child = comm.split((comm.rank() + k) % 2, k % 3 == 0 ? -comm.rank() : 0);
            wrong.expect(total(child, 1) == 2, "a child");
          }
        }) == "");
}

TEST_CASE("split: nodes are as the options say, and local ranks are in rank order") {
  complaints wrong;
  kolo::threads::run(7,
                     [&](auto& comm) {
                       const int r = comm.rank();
                       wrong.expect(comm.node_count() == 3 && comm.node_rank() == r / 3 && comm.local_rank() == r % 3,
                                    "the rank's node position");
                       wrong.expect(comm.local_size() == (r < 6 ? 3 : 1), "the node's size");
                       auto node = comm.split(comm.node_rank(), 0);
                       wrong.expect(node.size() == comm.local_size() && node.rank() == comm.local_rank(),
                                    "a communicator of the node");
                     },
                     {.ranks_per_node = 3});
  CHECK(wrong.text() == "");
}

TEMPLATE_TEST_CASE("split: a call in flight completes before split returns", "", over_slots, over_messages) {
  for (const int p : {2, 3, 5})
    CHECK(on_ranks<TestType>(
              p,
              [](auto& comm, complaints& wrong) {
                const int size = comm.size(), r = comm.rank();
                auto x = filled<int>(500, [&](std::size_t i) { return int_of(r, i); });
                auto started = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{});
                if (r == 0) started.test();  // the request is in flight on rank 0, and not yet on the others
                auto child = comm.split(0, r);
                started.wait();
                wrong.expect(x[0] == 1000 * size * (size - 1) / 2, "the call that was started first");
                wrong.expect(total(child, 1) == size, "the child");
              },
              small_slot) == "");
}

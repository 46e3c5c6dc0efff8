// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split: who is in which group and in which order; groups of groups; parent and child used in turn; calls still under way.
#include "collectives/elements.hpp"
#include "collectives/ranks.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

/// Adds up what the ranks of a communicator say.
template <class C>
int total(C& comm, int mine) {
  kolo::allreduce(comm, std::span{&mine, 1}, kolo::sum);
  return mine;
}

}  // namespace

TEMPLATE_TEST_CASE("colors make groups, keys order them", "", over_slots, over_messages) {
  for (const int p : rank_counts)
    CHECK(on_ranks<TestType>(p, [](auto& comm, complaints& wrong) {
            const int size = comm.size(), r = comm.rank();
            auto group = comm.split(r % 3, -r);
            const int members = (size - r % 3 + 2) / 3;
            wrong.expect(group.size() == members, "the group's size");
            wrong.expect(group.rank() == members - 1 - r / 3, "the group's order");
            int wanted = 0;
            for (int q = r % 3; q < size; q += 3) wanted += q;
            wrong.expect(total(group, r) == wanted, "a sum in the group");
            std::vector<int> ranks(static_cast<std::size_t>(members));
            kolo::allgather(group, std::span{&r, 1}, ranks);
            wrong.expect(std::is_sorted(ranks.rbegin(), ranks.rend()), "an allgather in the group");
          }) == "");
}

TEST_CASE("equal keys: the order of the ranks; negative colors are colors") {
  for (const int p : {1, 2, 3, 5, 8})
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            auto same = comm.split(-1, 7);
            wrong.expect(same.rank() == comm.rank() && same.size() == comm.size(), "a copy");
            auto alone = comm.split(comm.rank(), 0);
            wrong.expect(alone.rank() == 0 && alone.size() == 1 && total(alone, 5) == 5, "alone");
          }) == "");
}

TEMPLATE_TEST_CASE("groups of groups, parent and child used in turn", "", over_slots, over_messages) {
  for (const int p : {2, 3, 4, 6, 8, 12})
    CHECK(on_ranks<TestType>(p, [](auto& comm, complaints& wrong) {
            const int size = comm.size(), r = comm.rank();
            auto half = comm.split(r < size / 2 ? 0 : 1, r);
            auto quarter = half.split(half.rank() % 2, -half.rank());
            for (int k = 0; k < 5; ++k) {
              wrong.expect(total(comm, r) == size * (size - 1) / 2, "the whole");
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

TEST_CASE("children come and go many times") {
  CHECK(on_ranks(4, [](auto& comm, complaints& wrong) {
          for (int k = 0; k < 100; ++k) {
            auto child = comm.split((comm.rank() + k) % 2, k % 3 == 0 ? -comm.rank() : 0);
            wrong.expect(total(child, 1) == 2, "a child");
          }
        }) == "");
}

TEST_CASE("nodes are what the options say, and places are numbered in rank order") {
  complaints wrong;
  kolo::threads::run(7,
                     [&](auto& comm) {
                       const int r = comm.rank();
                       wrong.expect(comm.node_count() == 3 && comm.node_rank() == r / 3 && comm.local_rank() == r % 3,
                                    "the place");
                       wrong.expect(comm.local_size() == (r < 6 ? 3 : 1), "the node's size");
                       auto node = comm.split(comm.node_rank(), 0);
                       wrong.expect(node.size() == comm.local_size() && node.rank() == comm.local_rank(),
                                    "a communicator of the node");
                     },
                     {.ranks_per_node = 3});
  CHECK(wrong.text() == "");
}

TEMPLATE_TEST_CASE("split waits for what was started before it", "", over_slots, over_messages) {
  for (const int p : {2, 3, 5})
    CHECK(on_ranks<TestType>(
              p,
              [](auto& comm, complaints& wrong) {
                const int size = comm.size(), r = comm.rank();
                auto x = filled<int>(500, [&](std::size_t i) { return int_of(r, i); });
                auto started = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{});
                if (r == 0) started.test();  // it is under way on one rank, and not yet on the others
                auto child = comm.split(0, r);
                started.wait();
                wrong.expect(x[0] == 1000 * size * (size - 1) / 2, "the call that was started first");
                wrong.expect(total(child, 1) == size, "the child");
              },
              small_slot) == "");
}

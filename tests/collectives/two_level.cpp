// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// two_level on one lane and on several, on nodes of equal and of different sizes, with each root.
#include "collectives/movements.hpp"
#include "collectives/reductions.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

template <class C, class Family>
void every_kind(C& comm, complaints& wrong, std::size_t n, Family family) {
  for (const int lanes : {0, 1, 2}) {
    family.lanes = lanes;
    try_allreduce(comm, wrong, "two_level allreduce", n, family);
    try_reduce(comm, wrong, "two_level reduce", n, family);
    try_reduce_scatter(comm, wrong, "two_level reduce_scatter", n, family);
    try_broadcast(comm, wrong, "two_level broadcast", n, family);
    try_allgather(comm, wrong, "two_level allgather", n, family);
    try_gather_and_scatter(comm, wrong, "two_level", n, family);
    try_equal_alltoall(comm, wrong, "two_level alltoall", n, family);
    kolo::barrier(comm, family);
  }
}

/// Nodes of the transport, nodes of 3 and a smaller one, and nodes of given sizes; also with families that keep the order.
template <class C>
void on_all_nodes(C& comm, complaints& wrong, std::size_t n) {
  every_kind(comm, wrong, n, kolo::two_level<>{});
  kolo::two_level<kolo::two_shot, kolo::binomial> direct{.nodes = {.ranks_per_node = 2}};
  if (comm.size() % 2 != 0) direct.nodes = {.ranks_per_node = comm.size()};
  if (comm.size() == 9) direct.nodes = {.ranks_per_node = 3};
  every_kind(comm, wrong, n, direct);
  kolo::two_level<> given{.nodes = {.ranks_per_node = 3}};
  if (comm.size() == 9) given.nodes = {.sizes = {2, 4, 3}};
  every_kind(comm, wrong, n, given);
}

}  // namespace

TEST_CASE("two_level: over slots") {
  for (const int p : {2, 3, 5, 8, 9})
    CHECK(on_ranks(
              p,
              [&](auto& comm, complaints& wrong) {
                for (const std::size_t n : {1u, 211u}) on_all_nodes(comm, wrong, n);
              },
              small_slot) == "");
}

TEST_CASE("two_level: over messages") {
  for (const int p : {5, 8, 9})
    CHECK(on_ranks<over_messages>(p, [&](auto& comm, complaints& wrong) { on_all_nodes(comm, wrong, 211); }) == "");
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// node_map: from any node numbers, by size, and of some of the ranks.
#include <kolo/transport/node_map.hpp>

#include "support/catch.hpp"

using kolo::detail::transport::node_map;

namespace {

std::vector<int> numbers(const kolo::placement& p) { return {p.local_rank, p.local_size, p.node_rank, p.node_count}; }

}  // namespace

TEST_CASE("a node is identified by its lowest rank, and nodes are numbered in that order") {
  const node_map all{{7, 1, 7, 3, 1, 7}};  // three on one node, two on another, one alone
  CHECK(all.nodes() == std::vector<int>{0, 1, 0, 3, 1, 0});
  CHECK(numbers(all.placement_of(0)) == std::vector<int>{0, 3, 0, 3});
  CHECK(numbers(all.placement_of(4)) == std::vector<int>{1, 2, 1, 3});
  CHECK(numbers(all.placement_of(3)) == std::vector<int>{0, 1, 2, 3});
  CHECK(numbers(all.placement_of(5)) == std::vector<int>{2, 3, 0, 3});
}

TEST_CASE("among: some of the ranks, in another order") {
  const auto some = node_map{{7, 1, 7, 3, 1, 7}}.among({4, 5, 0});
  CHECK(some.nodes() == std::vector<int>{0, 1, 1});
  CHECK(numbers(some.placement_of(0)) == std::vector<int>{0, 1, 0, 2});
  CHECK(numbers(some.placement_of(2)) == std::vector<int>{1, 2, 1, 2});
}

TEST_CASE("by_size: nodes of equal size, of which the last may be smaller") {
  const auto all = node_map::by_size(8, 3);
  CHECK(all.nodes() == std::vector<int>{0, 0, 0, 3, 3, 3, 6, 6});
  CHECK(numbers(all.placement_of(7)) == std::vector<int>{1, 2, 2, 3});
  CHECK(node_map::by_size(2, 4).nodes() == std::vector<int>{0, 0});
}

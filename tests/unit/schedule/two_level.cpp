// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of two levels, counted and by the clock, is the documented one; the traffic between nodes is the least possible.
#include "unit/schedule/costs.hpp"

#include <kolo/schedule/bruck.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/pairwise.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/two_level.hpp>
#include <kolo/schedule/verify.hpp>
#include <kolo/simulate/run.hpp>

using namespace kolo;
using namespace costs;

namespace {

std::size_t number(int n) { return static_cast<std::size_t>(n); }

/// f(m, nodes, p, bytes) for nodes of m ranks.
template <class F>
void on_equal_nodes(F f) {
  for (const int m : {1, 2, 3, 4, 8})
    for (int nodes = 1; nodes <= 9; ++nodes) {
      INFO(nodes << " nodes of " << m << " ranks");
      if (m * nodes > 1) f(m, nodes, m * nodes, number(960 * m * nodes));
    }
}

struct traffic {
  std::size_t messages = 0, out = 0, in = 0;
};

/// The traffic that crosses the border of a node.
template <class S>
traffic over_the_border(const S& s, const topology& nodes, int node, int p, std::size_t bytes) {
  traffic all;
  for (int r = nodes.first(node, p); r < nodes.first(node, p) + nodes.size(node, p); ++r)
    for (int k = 0; k < s.rounds(p); ++k)
      for (const transfer& t : step{s.at(r, p, k)}) {
        const auto crosses = [&](const peer_range& peers, int i) { return nodes.node_of(peers.at(i, p), p) != node; };
        for (int i = 0; i < t.to.count; ++i)
          if (crosses(t.to, i))
            ++all.messages,
                all.out += bytes_in(t.send, i, s.blocks(p), kolo::detail::schedule::block_sets(S::collective), bytes);
        for (int i = 0; i < t.from.count; ++i)
          if (crosses(t.from, i))
            all.in += bytes_in(t.receive, i, s.blocks(p), kolo::detail::schedule::block_sets(S::collective), bytes);
      }
  return all;
}

/// f(family, number of nodes, p): equal nodes, unequal ones, and nodes of which the last is smaller; on all lanes, one, and two.
template <class F>
void on_all_nodes(F f) {
  for (const topology& nodes :
       {topology{.ranks_per_node = 4}, topology{.sizes = {2, 5, 3, 2}}, topology{.ranks_per_node = 5}})
    for (const int lanes : {0, 1, 2}) {
      INFO(nodes.size(0, 12) << " ranks on the first node, " << lanes << " lanes");
      f(two_level<circulant, binomial>{.nodes = nodes, .lanes = lanes}, nodes.nodes(12), 12);
    }
}

}  // namespace

TEST_CASE("the cost of two levels: together no byte more than one, if the nodes are equal") {
  on_equal_nodes([](int m, int nodes, int p, std::size_t n) {
    const two_level<> family{.nodes = {.ranks_per_node = m}};
    const cost both = busiest(schedule_of<kind::allreduce>(family), p, n),
               one = busiest(schedule_of<kind::reduce_scatter>(family), p, n),
               other = busiest(schedule_of<kind::allgather>(family), p, n);
    CHECK(both.rounds == 2 * (ceil_log2(m) + ceil_log2(nodes)));
    CHECK(both.messages == 2 * (q(m) + q(nodes)));
    CHECK((both.sent == 2 * most_of(p, n) && both.received == 2 * most_of(p, n) && both.combined == most_of(p, n)));
    CHECK(
        (one.rounds == ceil_log2(m) + ceil_log2(nodes) && one.sent == most_of(p, n) && one.combined == most_of(p, n)));
    CHECK((other.rounds == one.rounds && other.sent == most_of(p, n) && other.received == most_of(p, n) &&
           other.combined == 0));
  });
}

TEST_CASE("the cost of two levels: rooted kinds, barrier and alltoall") {
  on_equal_nodes([](int m, int nodes, int p, std::size_t n) {
    const two_level<> family{.nodes = {.ranks_per_node = m}};
    const two_level<ring, binomial> of_trees{.nodes = {.ranks_per_node = m}};
    const std::size_t inside = most_of(m, n), between = q(nodes) * (n / number(m));
    const cost down = busiest(schedule_of<kind::broadcast>(family), p, n),
               up = busiest(schedule_of<kind::reduce>(of_trees), p, n);
    CHECK(down.rounds == 2 * ceil_log2(m) + ceil_log2(nodes));
    CHECK(down.sent == 2 * inside + between);
    CHECK(up.rounds == m - 1 + ceil_log2(nodes) + ceil_log2(m));
    CHECK((up.received == 2 * inside + between && up.combined == inside + between));
    const cost gathered = busiest(schedule_of<kind::gather>(family), p, n),
               scattered = busiest(schedule_of<kind::scatter>(family), p, n);
    CHECK((gathered.rounds == ceil_log2(m) + ceil_log2(nodes) && gathered.received == most_of(p, n)));
    CHECK((scattered.rounds == gathered.rounds && scattered.sent == most_of(p, n)));
    const cost barrier = busiest(schedule_of<kind::barrier>(family), p, 0),
               all = busiest(schedule_of<kind::alltoall>(family), p, n);
    CHECK((barrier.rounds == 2 * ceil_log2(m) + ceil_log2(nodes) && barrier.messages == q(m) + q(nodes)));
    CHECK((all.rounds == m + nodes - 2 && all.messages == others(m) + others(nodes)));
    CHECK(all.sent == n / number(m) * others(m) + n / number(nodes) * others(nodes));
  });
}

TEST_CASE("the cost of two levels on one lane: a tree in the node on either side") {
  on_equal_nodes([](int m, int nodes, int p, std::size_t n) {
    const two_level<> family{.nodes = {.ranks_per_node = m}, .lanes = 1};
    const cost all = busiest(schedule_of<kind::allreduce>(family), p, n);
    CHECK(schedule_of<kind::allreduce>(family).blocks(p) == nodes);
    CHECK(all.rounds == 2 * (ceil_log2(m) + ceil_log2(nodes)));
    CHECK(all.sent == q(m) * n + 2 * most_of(nodes, n));
    CHECK(all.combined == q(m) * n + most_of(nodes, n));
    const cost down = busiest(two_level<>::broadcast{family, p - 1}, p, n);
    CHECK(down.rounds ==
          (m > 1 ? 1 : 0) + ceil_log2(nodes) + ceil_log2(m));  // the last rank does not represent its node
    CHECK(busiest(schedule_of<kind::allgather>(family), p, n).rounds == 2 * ceil_log2(m) + ceil_log2(nodes));
  });
}

TEST_CASE("the cost of two levels where a node is larger: neighbours act as one") {
  const auto schedule = schedule_of<kind::allreduce>(two_level<>{.nodes = {.sizes = {4, 3}}});
  CHECK(schedule.supports(7));
  CHECK(!schedule.supports(8));
  CHECK(schedule.blocks(7) == 3 * 2);
  const cost counted = busiest(schedule, 7, 6000);
  CHECK(counted.rounds == 2 * (1 + 2 + 1));
  CHECK(counted.sent == 6000 + 2 * 5000);  // to the rank for which it acts, and (p - 1) / p of all for 2 nodes of 3
  CHECK(counted.combined == 6000 + 5000);
  const auto direct = schedule_of<kind::allreduce>(two_level<two_shot, ring>{.nodes = {.ranks_per_node = 4}});
  CHECK(direct.supports(12));
  CHECK(!direct.supports(11));  // it has ranges of peers
  const auto parts = schedule_of<kind::allgather>(two_level<>{.nodes = {.sizes = {4, 3}}});
  CHECK(parts.blocks(7) == 3 * 7);
  CHECK(parts.rounds(7) == 1 + 2 + 1 + 2 + 1);
  CHECK(!supports(schedule_of<kind::alltoall>(two_level<bruck, pairwise>{.nodes = {.ranks_per_node = 4}}),
                  8));  // it has scratch blocks
}

TEST_CASE("the traffic between nodes is the theoretical one, on any lanes, and for any root") {
  on_all_nodes([](const auto& family, int nodes, int p) {
    using Family = std::remove_cvref_t<decltype(family)>;
    const std::size_t n = 12 * 60 * 9, part = n / 12;
    for (int node = 0; node < nodes; ++node) {
      const std::size_t own = part * number(family.nodes.size(node, p)), rest = n - own;
      INFO("node " << node);
      const auto crosses = [&](const auto& s) { return over_the_border(s, family.nodes, node, p, n); };
      const traffic all = crosses(schedule_of<kind::allgather>(family)),
                    sums = crosses(schedule_of<kind::reduce_scatter>(family));
      CHECK((all.in == rest && sums.out == rest));
      const traffic sum = crosses(schedule_of<kind::allreduce>(family));
      CHECK((sum.in == 2 * (n - n / number(nodes)) && sum.out == sum.in));
      CHECK(crosses(schedule_of<kind::barrier>(family)).messages == q(nodes));
      for (const int root : {0, 3, 7, 11}) {
        const bool is_its = family.nodes.node_of(root, p) == node;
        CHECK(crosses(typename Family::broadcast{family, root}).in == (is_its ? 0 : n));
        CHECK(crosses(typename Family::reduce{family, root}).out == (is_its ? 0 : n));
        CHECK((!is_its || crosses(typename Family::gather{family, root}).in == rest));
        CHECK((!is_its || crosses(typename Family::scatter{family, root}).out == rest));
        CHECK((is_its || crosses(typename Family::scatter{family, root}).in >= own));
      }
      if (family.nodes.ranks_per_node != 4) continue;
      const traffic exchanged = crosses(schedule_of<kind::alltoall>(family));
      CHECK((exchanged.messages == number(4 * (nodes - 1)) && exchanged.out == 4 * 8 * part));
    }
  });
}

TEST_CASE("two levels are proven for every root, also in rank order") {
  for (const topology& nodes : {topology{.ranks_per_node = 4}, topology{.sizes = {2, 5, 3, 2}}})
    for (const int lanes : {0, 1, 2})
      for (int root = 0; root < 12; ++root) {
        const two_level<> any{nodes, lanes};
        INFO(root << " is the root, on " << lanes << " lanes");
        CHECK(verify(two_level<>::broadcast{any, root}, 12));
        CHECK(verify(two_level<>::reduce{any, root}, 12));
        CHECK(verify(two_level<>::gather{any, root}, 12));
        CHECK(verify(two_level<>::scatter{any, root}, 12));
        if (nodes.ranks_per_node == 0) continue;
        CHECK(verify(two_level<two_shot, binomial>::reduce{{nodes, lanes}, root}, 12));
        CHECK(verify(two_level<two_shot, one_shot>::broadcast{{nodes, lanes}, root}, 12));
      }
  STATIC_REQUIRE(is_ordered<two_level<two_shot, binomial>::reduce>());
  STATIC_REQUIRE(!is_ordered<two_level<>::reduce>());
}

TEST_CASE("if the links between nodes are slow, two levels are faster by nearly the ranks per node") {
  // latency, overhead, gap, seconds_per_byte, seconds_per_byte_reduced, ranks_per_node, inside, cards_per_node
  constexpr simulate::network ports{1e-5, 0, 0, 1e-9, 0, 8, {1e-7, 0, 0, 1e-12}},
      card{1e-5, 0, 0, 1e-9, 0, 8, {1e-7, 0, 0, 1e-12}, 1};
  const int p = 64;
  const std::size_t n = 64 << 20;
  const two_level<> family{.nodes = {.ranks_per_node = 8}};
  const auto ratio = [&](const auto& flat, auto k, const simulate::network& on, std::size_t bytes) {
    return simulate::run(flat, p, bytes, on) / simulate::run(schedule_of<k()>(family), p, bytes, on);
  };
  using std::integral_constant;
  CHECK(ratio(binomial::broadcast{}, integral_constant<kind, kind::broadcast>{}, ports, n) > 7);
  CHECK(ratio(binomial::reduce{}, integral_constant<kind, kind::reduce>{}, ports, n) > 7);
  CHECK(ratio(circulant::allreduce{}, integral_constant<kind, kind::allreduce>{}, card, n) > 7);
  CHECK(ratio(circulant::allgather{}, integral_constant<kind, kind::allgather>{}, card, n) > 7);
  CHECK(ratio(circulant::reduce_scatter{}, integral_constant<kind, kind::reduce_scatter>{}, card, n) > 7);
  CHECK(ratio(ring::allgather{}, integral_constant<kind, kind::allgather>{}, ports, n) > 7);
  CHECK(ratio(pairwise::alltoall{}, integral_constant<kind, kind::alltoall>{}, ports, 64 * 64) > 7);
  CHECK(ratio(dissemination::barrier{}, integral_constant<kind, kind::barrier>{}, ports, 0) >
        1.3);  // most of its first rounds stay inside
}

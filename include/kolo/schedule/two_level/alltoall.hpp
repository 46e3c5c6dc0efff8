// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two levels for an alltoall: the blocks of a node for a rank of another node travel as one message.
#pragma once

#include <kolo/schedule/pairwise.hpp>
#include <kolo/schedule/two_level/family.hpp>
#include <kolo/schedule/two_level/node_layout.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {
/// The transfers inside read set 0 and write scratch; those between nodes read scratch and write set 1. If only one of
/// the two levels exists, it reads set 0 and writes set 1. (See `hierarchical_phases`.)
struct lanes_of_alltoall {
  static constexpr step split_inside(const node_layout& on, const step& now) { return split_at(now, on.m); }
  static constexpr step split_between(const node_layout& on, const step& now) { return split_at(now, on.n); }
  static constexpr block_range inside(const node_layout& on, const block_range& lane) {
    const int begin = lane.first < on.m ? 0 : on.n > 1 ? 2 * on.p : on.p;
    return {begin + lane.first % on.m, on.n, on.m, 1, lane.per_peer};
  }
  static constexpr block_range across(const node_layout& on, const block_range& node, int, int) {
    const int begin = node.first >= on.n ? on.p : on.m > 1 ? 2 * on.p : 0;
    return {begin + node.first % on.n * on.m, on.m, 1, 1, node.per_peer * on.m};
  }
};
}  // namespace detail::schedule

/// Inside, rank l of a node receives the node's blocks for the ranks l of all nodes, into scratch, by node and source.
/// Then every rank sends them to the ranks l of the other nodes. If nodes differ in size, every rank counts as a node.
template <class Inside, class Between>
struct two_level<Inside, Between>::alltoall {
  using inner = detail::schedule::type_or<kind::alltoall, pairwise::alltoall, Inside>;
  using outer = detail::schedule::type_or<kind::alltoall, pairwise::alltoall, Between>;
  static constexpr auto collective = kind::alltoall;
  two_level shape{};

  constexpr bool supports(int p) const {
    return shape.nodes.holds(p) && at_level(p).all.fits(within(), across(), true);
  }
  static constexpr int blocks(int p) { return p; }
  constexpr int scratch(int p) const {
    const auto all = seating(p);
    return all.m > 1 && all.n > 1 ? p : 0;
  }
  constexpr int rounds(int p) const {
    const auto level = at_level(p);
    return level.rounds_inside(within()) + level.rounds_between(across());
  }
  constexpr step at(int r, int p, int k) const {
    const auto level = at_level(p);
    const auto me = level.all.of(r);
    const int begun = level.rounds_inside(within());
    return k < begun ? level.inside(within(), me, k) : level.between(across(), me, k - begun);
  }

 private:
  constexpr inner within() const { return detail::schedule::schedule_or<inner::collective, inner>(shape.inside); }
  constexpr outer across() const { return detail::schedule::schedule_or<outer::collective, outer>(shape.between); }
  constexpr detail::schedule::node_layout seating(int p) const {
    const detail::schedule::node_layout all{shape.nodes, 0, p};
    return all.has_equal_nodes() ? all : detail::schedule::node_layout{{.ranks_per_node = 1}, 0, p};
  }
  constexpr auto at_level(int p) const {
    return detail::schedule::hierarchical_phases<detail::schedule::lanes_of_alltoall>{seating(p), {}};
  }
};

}  // namespace kolo::inline KOLO_ABI

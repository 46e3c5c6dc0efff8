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
  static constexpr bool in_parts = true;
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
  using phases = detail::schedule::hierarchical_phases<detail::schedule::lanes_of_alltoall, two_level,
                                                       pairwise::alltoall, pairwise::alltoall>;
  static constexpr auto collective = kind::alltoall;
  two_level shape{};

  constexpr bool supports(int p) const { return shape.nodes.holds(p) && at_level(p).fits(); }
  static constexpr int blocks(int p) { return p; }
  constexpr int scratch(int p) const {
    const phases level = at_level(p);
    return level.all.m > 1 && level.all.n > 1 ? p : 0;
  }
  constexpr int rounds(int p) const {
    const phases level = at_level(p);
    return level.rounds_inside() + level.rounds_between();
  }
  constexpr step at(int r, int p, int k) const {
    const phases level = at_level(p);
    const auto me = level.all.of(r);
    const int begun = level.rounds_inside();
    return k < begun ? level.inside(me, k) : level.between(me, k - begun);
  }

 private:
  constexpr phases at_level(int p) const {
    const detail::schedule::node_layout all{shape.nodes, 0, p};
    return {shape, all.has_equal_nodes() ? all : detail::schedule::node_layout{{.ranks_per_node = 1}, 0, p}};
  }
};

}  // namespace kolo::inline KOLO_ABI

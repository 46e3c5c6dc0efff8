// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two levels for kinds without parts: allreduce, reduce, broadcast, barrier.
#pragma once

#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/two_level/family.hpp>
#include <kolo/schedule/two_level/node_layout.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {
/// Every lane has `each` consecutive blocks. (See `hierarchical_phases`.)
struct lanes_of_vector {
  static constexpr bool in_parts = false;
  int each;

  constexpr block_range all(const node_layout& on) const { return {0, on.m * each}; }
  static constexpr const step& split_inside(const node_layout&, const step& now) { return now; }
  static constexpr const step& split_between(const node_layout&, const step& now) { return now; }
  constexpr block_range inside(const node_layout& on, const block_range& of, int first_lane = 0) const {
    return {mod(of.first + first_lane, on.m) * each,
            of.count * each,
            of.stride * each,
            of.run * each,
            of.per_peer * each,
            of.cycle * each};
  }
  constexpr block_range across(const node_layout&, block_range of, int lane, int) const {
    of.first += lane * each;
    if (of.cycle == 0) of.cycle = each;
    return of;
  }
};

/// The transfers from the lanes of the root's node to the root.
struct path_to_root {
  const node_layout& all;
  const lanes_of_vector& cut;
  int root;
  node_position at = all.of(root);

  constexpr bool hops() const { return at.index > 0; }  ///< the root is not the leader of its run
  constexpr int rounds() const { return ceil_log2(all.m) + (hops() ? 1 : 0); }
  constexpr step gather(const node_position& me, int r, int k) const {
    const int m = all.m, leader = root - at.index;
    if (k < ceil_log2(m)) {
      if (me.node != at.node || me.index > 0) return {};
      return renamed(
          binomial::gather::at(mod(me.lane - at.lane, m), m, k),
          [&](const peer_range& lanes) { return all.inside(lanes, at.node, at.lane); },
          [&](const block_range& of) { return cut.inside(all, of, at.lane); });
    }
    if (r == leader) return transfer{.to = root, .send = cut.all(all)};
    if (r == root) return transfer{.from = leader, .receive = cut.all(all)};
    return {};
  }
  constexpr step scatter(const node_position& me, int r, int k) const {
    return backwards(gather(me, r, rounds() - 1 - k));
  }
};
}  // namespace detail::schedule

/// A reduce_scatter inside the nodes, an allreduce between them for each lane, an allgather inside.
template <class Inside, class Between>
struct two_level<Inside, Between>::allreduce {
  using phases = detail::schedule::hierarchical_phases<detail::schedule::lanes_of_vector, two_level,
                                                       circulant::reduce_scatter, circulant::allreduce>;
  static constexpr auto collective = kind::allreduce;
  static constexpr bool ordered = phases::ordered;
  two_level shape{};

  constexpr bool supports(int p) const { return shape.nodes.holds(p) && phases{shape, p}.fits(); }
  constexpr int blocks(int p) const { return phases{shape, p}.blocks(); }
  constexpr int rounds(int p) const {
    const phases level{shape, p};
    return 2 * level.rounds_up() + level.rounds_between();
  }
  constexpr int reduce_rounds(int p) const {
    const phases level{shape, p};
    return level.rounds_up() + level.reduce_rounds_between();
  }
  constexpr step at(int r, int p, int k) const {
    const phases level{shape, p};
    const auto me = level.all.of(r);
    const int up = level.rounds_up(), over = level.rounds_between();
    if (k < up) return level.up(me, r, k);
    if (k < up + over) return level.between(me, k - up);
    return detail::schedule::backwards(level.up(me, r, up - 1 - (k - up - over)));
  }
};

/// A reduce_scatter inside the nodes, a reduce between them for each lane, and a gather of all lanes at the root.
template <class Inside, class Between>
struct two_level<Inside, Between>::reduce {
  using phases = detail::schedule::hierarchical_phases<detail::schedule::lanes_of_vector, two_level,
                                                       circulant::reduce_scatter, binomial::reduce>;
  static constexpr auto collective = kind::reduce;
  static constexpr bool ordered = phases::ordered;
  two_level shape{};
  int root = 0;

  constexpr bool supports(int p) const {
    return shape.nodes.holds(p) && root >= 0 && root < p && phases{shape, p}.fits();
  }
  constexpr int blocks(int p) const { return phases{shape, p}.blocks(); }
  constexpr int rounds(int p) const {
    const phases level{shape, p};
    const detail::schedule::path_to_root path{level.all, level.cut, root};
    return level.rounds_up() + level.rounds_between() + (hands_on(path) ? 1 : 0) + path.rounds();
  }
  constexpr int reduce_rounds(int p) const {
    const phases level{shape, p};
    return level.rounds_up() + level.reduce_rounds_between();
  }
  constexpr step at(int r, int p, int k) const {
    const phases level{shape, p};
    const auto me = level.all.of(r);
    const detail::schedule::path_to_root path{level.all, level.cut, root};
    const int up = level.rounds_up(), there = up + level.rounds_between();
    if (k < up) return level.up(me, r, k);
    if (k < there) return level.between(me, k - up, ordered ? 0 : path.at.node);
    if (hands_on(path) && k == there) return hand_on(level, me, path.at.node);
    return path.gather(me, r, k - there - (hands_on(path) ? 1 : 0));
  }

 private:
  /// Whether the result is formed on the first node and then forwarded, so that nodes are combined in their order.
  static constexpr bool hands_on(const detail::schedule::path_to_root& path) { return ordered && path.at.node > 0; }
  static constexpr step hand_on(const auto& level, const detail::schedule::node_position& me, int node) {
    const block_range mine{me.lane * level.cut.each, level.cut.each};
    if (me.index == 0 && me.node == 0) return transfer{.to = level.all.rank(node, me.lane), .send = mine};
    if (me.index == 0 && me.node == node) return transfer{.from = level.all.rank(0, me.lane), .receive = mine};
    return {};
  }
};

/// The root cuts its vector into lanes, which travel between the nodes; an allgather inside puts them together.
template <class Inside, class Between>
struct two_level<Inside, Between>::broadcast {
  using phases = detail::schedule::hierarchical_phases<detail::schedule::lanes_of_vector, two_level,
                                                       circulant::allgather, binomial::broadcast>;
  static constexpr auto collective = kind::broadcast;
  two_level shape{};
  int root = 0;

  constexpr bool supports(int p) const {
    return shape.nodes.holds(p) && root >= 0 && root < p && phases{shape, p}.fits();
  }
  constexpr int blocks(int p) const { return phases{shape, p}.blocks(); }
  constexpr int rounds(int p) const {
    const phases level{shape, p};
    return detail::schedule::path_to_root{level.all, level.cut, root}.rounds() + level.rounds_between() +
           level.rounds_up();
  }
  constexpr step at(int r, int p, int k) const {
    const phases level{shape, p};
    const auto me = level.all.of(r);
    const detail::schedule::path_to_root path{level.all, level.cut, root};
    const int begun = path.rounds(), down = begun + level.rounds_between();
    if (k < begun) return path.scatter(me, r, k);
    if (k < down) return level.between(me, k - begun, path.at.node);
    return level.down(me, r, k - down);
  }
};

/// The ranks of a node notify one leader, the leaders run a barrier, and each leader notifies its ranks.
template <class Inside, class Between>
struct two_level<Inside, Between>::barrier {
  using phases = detail::schedule::hierarchical_phases<detail::schedule::lanes_of_vector, two_level,
                                                       dissemination::barrier, dissemination::barrier>;
  static constexpr auto collective = kind::barrier;
  two_level shape{};

  constexpr bool supports(int p) const { return shape.nodes.holds(p) && at_level(p).fits(); }
  static constexpr int blocks(int) { return 1; }
  constexpr int rounds(int p) const {
    const phases level = at_level(p);
    return 2 * level.all.joining() + level.rounds_between();
  }
  constexpr step at(int r, int p, int k) const {
    const phases level = at_level(p);
    const auto me = level.all.of(r);
    const int up = level.all.joining(), over = level.rounds_between();
    if (k >= up && k < up + over) return level.between(me, k - up);
    const bool told = k < up;
    const step joins = level.all.reduce_to_leader(me, r, told ? k : up - 1 - (k - up - over), level.cut.all(level.all));
    return detail::schedule::backwards(told ? detail::schedule::backwards(joins) : joins);  // nothing is combined
  }

 private:
  constexpr phases at_level(int p) const { return {shape, {shape.nodes, 1, p}}; }
};

}  // namespace kolo::inline KOLO_ABI

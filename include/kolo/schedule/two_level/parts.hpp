// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two levels for kinds with parts: reduce_scatter, allgather, gather, scatter.
#pragma once

#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/two_level/family.hpp>
#include <kolo/schedule/two_level/node_layout.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {
/// If runs are equal, a lane has all parts of its runs. Otherwise every part is cut into m blocks, and lane l has block
/// l of every part, so that the lanes of neighbouring nodes have a regular range. (See `hierarchical_phases`.)
struct lanes_of_parts {
  static constexpr bool in_parts = true;
  static constexpr int each(const node_layout& on) { return on.has_equal_runs() ? 1 : on.m; }  ///< blocks of a part
  static constexpr block_range all(const node_layout& on) { return {0, on.p * each(on)}; }
  /// The parts of these lanes on all nodes. A range that wraps around the end continues in the next node, which is
  /// equivalent, since nodes form a circle too.
  static constexpr block_range inside(const node_layout& on, const block_range& lanes) {
    const bool whole = on.has_equal_runs();
    const int c = whole ? on.run() : 1, distance = whole ? on.most() : on.m;
    return {mod(lanes.first, on.m) * c, on.p * each(on) / distance * lanes.count * c, distance, lanes.count * c,
            lanes.per_peer * c};
  }
  /// The parts of these nodes on one lane, from `first_node` on.
  static constexpr block_range across(const node_layout& on, const block_range& nodes, int lane, int first_node) {
    const int a = mod(nodes.first + first_node, on.n), b = mod(a + nodes.count, on.n), first = on.first(a);
    const int ranks = on.first(b) - first + (b > a ? 0 : on.p), further = nodes.per_peer * on.most();
    if (on.has_equal_runs()) return {first + lane * on.run(), ranks / on.m, on.most(), on.run(), further};
    return {first * on.m + lane, ranks, on.m, 1, further * on.m};
  }
  static constexpr step split_inside(const node_layout& on, const step& now) { return split_at(now, on.m); }
  static constexpr const step& split_between(const node_layout&, const step& now) { return now; }
};

/// The transfers between ranks and lanes: a leader collects the parts of its run, then sends every lane its blocks of
/// them.
struct path_to_lanes {
  const node_layout& all;

  constexpr int rounds() const { return all.joining() + (all.has_equal_runs() ? 0 : all.m - 1); }
  constexpr step gather(const node_position& me, int r, int k) const {
    if (k < all.joining()) return all.collect(me, r, k, lanes_of_parts::each(all));
    if (me.index > 0) return {};
    const int distance = k - all.joining() + 1, to = mod(me.lane + distance, all.m),
              from = mod(me.lane - distance, all.m);
    return transfer{.to = all.rank(me.node, to),
                    .send = parts_for(me.node, me.lane, to),
                    .from = all.rank(me.node, from),
                    .receive = parts_for(me.node, from, me.lane)};
  }
  constexpr step scatter(const node_position& me, int r, int k) const {
    return backwards(gather(me, r, rounds() - 1 - k));
  }

 private:
  /// The blocks of a run's parts that belong to one lane.
  constexpr block_range parts_for(int node, int run, int lane) const {
    return {all.rank(node, run) * all.m + lane, int(all.run_of(node, run).count), all.m};
  }
};
}  // namespace detail::schedule

/// Inside the nodes first, then between them: every rank ends with its own part.
template <class Inside, class Between>
struct two_level<Inside, Between>::reduce_scatter {
  using phases = detail::schedule::hierarchical_phases<detail::schedule::lanes_of_parts, two_level,
                                                       circulant::reduce_scatter, circulant::reduce_scatter>;
  static constexpr auto collective = kind::reduce_scatter;
  static constexpr bool ordered = phases::ordered;
  two_level shape{};

  constexpr bool supports(int p) const { return shape.nodes.holds(p) && phases{shape, p}.fits(); }
  constexpr int blocks(int p) const { return phases{shape, p}.blocks(); }
  constexpr int rounds(int p) const {
    const phases level{shape, p};
    return level.rounds_up() + level.rounds_between() + detail::schedule::path_to_lanes{level.all}.rounds();
  }
  constexpr int reduce_rounds(int p) const {
    const phases level{shape, p};
    return level.rounds_up() + level.rounds_between();
  }
  constexpr step at(int r, int p, int k) const {
    const phases level{shape, p};
    const auto me = level.all.of(r);
    const int up = level.rounds_up(), there = up + level.rounds_between();
    if (k < up) return level.up(me, r, k);
    if (k < there) return level.between(me, k - up);
    return detail::schedule::path_to_lanes{level.all}.scatter(me, r, k - there);
  }
};

/// Between the nodes first, then inside them: every rank ends with all blocks.
template <class Inside, class Between>
struct two_level<Inside, Between>::allgather {
  using phases = detail::schedule::hierarchical_phases<detail::schedule::lanes_of_parts, two_level,
                                                       circulant::allgather, circulant::allgather>;
  static constexpr auto collective = kind::allgather;
  two_level shape{};

  constexpr bool supports(int p) const { return shape.nodes.holds(p) && phases{shape, p}.fits(); }
  constexpr int blocks(int p) const { return phases{shape, p}.blocks(); }
  constexpr int rounds(int p) const {
    const phases level{shape, p};
    return detail::schedule::path_to_lanes{level.all}.rounds() + level.rounds_between() + level.rounds_up();
  }
  constexpr step at(int r, int p, int k) const {
    const phases level{shape, p};
    const auto me = level.all.of(r);
    const detail::schedule::path_to_lanes path{level.all};
    const int begun = path.rounds(), down = begun + level.rounds_between();
    if (k < begun) return path.gather(me, r, k);
    if (k < down) return level.between(me, k - begun);
    return level.down(me, r, k - down);
  }
};

/// On one lane.
template <class Inside, class Between>
struct two_level<Inside, Between>::gather {
  using phases = detail::schedule::hierarchical_phases<detail::schedule::lanes_of_parts, two_level, binomial::gather,
                                                       binomial::gather>;
  static constexpr auto collective = kind::gather;
  two_level shape{};
  int root = 0;

  constexpr bool supports(int p) const { return shape.nodes.holds(p) && root >= 0 && root < p && at_level(p).fits(); }
  static constexpr int blocks(int p) { return p; }
  constexpr int rounds(int p) const {
    const phases level = at_level(p);
    return level.all.joining() + level.rounds_between() + (level.all.of(root).index > 0 ? 1 : 0);
  }
  constexpr step at(int r, int p, int k) const {
    const phases level = at_level(p);
    const auto me = level.all.of(r), its = level.all.of(root);
    const int joining = level.all.joining(), leader = root - its.index;
    if (k < joining) return level.all.collect(me, r, k, 1);
    if (k < joining + level.rounds_between()) return level.between(me, k - joining, its.node);
    if (r == leader) return transfer{.to = root, .send = level.cut.all(level.all)};
    if (r == root) return transfer{.from = leader, .receive = level.cut.all(level.all)};
    return {};
  }

 private:
  constexpr phases at_level(int p) const { return {shape, {shape.nodes, 1, p}}; }
};

/// The gather in reverse.
template <class Inside, class Between>
struct two_level<Inside, Between>::scatter {
  static constexpr auto collective = kind::scatter;
  two_level shape{};
  int root = 0;

  constexpr bool supports(int p) const { return gather{shape, root}.supports(p); }
  static constexpr int blocks(int p) { return p; }
  constexpr int rounds(int p) const { return gather{shape, root}.rounds(p); }
  constexpr step at(int r, int p, int k) const {
    return detail::schedule::backwards(gather{shape, root}.at(r, p, rounds(p) - 1 - k));
  }
};

}  // namespace kolo::inline KOLO_ABI

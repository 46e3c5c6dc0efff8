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

constexpr hierarchical_phases<lanes_of_vector> level_of_vector(const node_layout& all, const Schedule auto& across) {
  return {all, {all.n > 1 ? across.blocks(all.n) : 1}};
}

/// The transfers from the lanes of the root's node to the root.
struct path_to_root {
  const hierarchical_phases<lanes_of_vector>& level;
  int root;
  node_position at = level.all.of(root);

  constexpr bool hops() const { return at.index > 0; }  ///< the root is not the leader of its run
  constexpr int rounds() const { return ceil_log2(level.all.m) + (hops() ? 1 : 0); }
  constexpr step gather(const node_position& me, int r, int k) const {
    const int m = level.all.m, leader = root - at.index;
    if (k < ceil_log2(m)) {
      if (me.node != at.node || me.index > 0) return {};
      return renamed(
          binomial::gather::at(mod(me.lane - at.lane, m), m, k),
          [&](const peer_range& lanes) { return level.all.inside(lanes, at.node, at.lane); },
          [&](const block_range& of) { return level.cut.inside(level.all, of, at.lane); });
    }
    if (r == leader) return transfer{.to = root, .send = level.cut.all(level.all)};
    if (r == root) return transfer{.from = leader, .receive = level.cut.all(level.all)};
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
  using inner = detail::schedule::type_or<kind::reduce_scatter, circulant::reduce_scatter, Inside>;
  using outer = detail::schedule::type_or<kind::allreduce, circulant::allreduce, Between>;
  static constexpr auto collective = kind::allreduce;
  static constexpr bool ordered = is_ordered<inner>() && is_ordered<outer>();
  two_level shape{};

  constexpr bool supports(int p) const { return shape.nodes.holds(p) && at_level(p).all.fits(within(), across()); }
  constexpr int blocks(int p) const { return at_level(p).blocks(); }
  constexpr int rounds(int p) const {
    const auto level = at_level(p);
    return 2 * level.rounds_up(within()) + level.rounds_between(across());
  }
  constexpr int reduce_rounds(int p) const {
    const auto level = at_level(p);
    return level.all.n > 1 ? level.rounds_up(within()) + kolo::detail::schedule::reduce_rounds(across(), level.all.n)
                           : level.rounds_up(within());
  }
  constexpr step at(int r, int p, int k) const {
    const auto level = at_level(p);
    const auto me = level.all.of(r);
    const int up = level.rounds_up(within()), over = level.rounds_between(across());
    if (k < up) return level.up(within(), me, r, k);
    if (k < up + over) return level.between(across(), me, k - up);
    return detail::schedule::backwards(level.up(within(), me, r, up - 1 - (k - up - over)));
  }

 private:
  constexpr inner within() const { return detail::schedule::schedule_or<inner::collective, inner>(shape.inside); }
  constexpr outer across() const { return detail::schedule::schedule_or<outer::collective, outer>(shape.between); }
  constexpr auto at_level(int p) const {
    return detail::schedule::level_of_vector({shape.nodes, shape.lanes, p}, across());
  }
};

/// A reduce_scatter inside the nodes, a reduce between them for each lane, and a gather of all lanes at the root.
template <class Inside, class Between>
struct two_level<Inside, Between>::reduce {
  using inner = detail::schedule::type_or<kind::reduce_scatter, circulant::reduce_scatter, Inside>;
  using outer = detail::schedule::type_or<kind::reduce, binomial::reduce, Between>;
  static constexpr auto collective = kind::reduce;
  static constexpr bool ordered = is_ordered<inner>() && is_ordered<outer>();
  two_level shape{};
  int root = 0;

  constexpr bool supports(int p) const {
    return shape.nodes.holds(p) && root >= 0 && root < p && at_level(p).all.fits(within(), across());
  }
  constexpr int blocks(int p) const { return at_level(p).blocks(); }
  constexpr int rounds(int p) const {
    const auto level = at_level(p);
    const detail::schedule::path_to_root path{level, root};
    return level.rounds_up(within()) + level.rounds_between(across()) + (hands_on(path) ? 1 : 0) + path.rounds();
  }
  constexpr int reduce_rounds(int p) const {
    const auto level = at_level(p);
    return level.rounds_up(within()) +
           (level.all.n > 1 ? kolo::detail::schedule::reduce_rounds(across(), level.all.n) : 0);
  }
  constexpr step at(int r, int p, int k) const {
    const auto level = at_level(p);
    const auto me = level.all.of(r);
    const detail::schedule::path_to_root path{level, root};
    const int up = level.rounds_up(within()), there = up + level.rounds_between(across());
    if (k < up) return level.up(within(), me, r, k);
    if (k < there) return level.between(across(), me, k - up, ordered ? 0 : path.at.node);
    if (hands_on(path) && k == there) return hand_on(level, me, path.at.node);
    return path.gather(me, r, k - there - (hands_on(path) ? 1 : 0));
  }

 private:
  constexpr inner within() const { return detail::schedule::schedule_or<inner::collective, inner>(shape.inside); }
  constexpr outer across() const { return detail::schedule::schedule_or<outer::collective, outer>(shape.between); }
  constexpr auto at_level(int p) const {
    return detail::schedule::level_of_vector({shape.nodes, shape.lanes, p}, across());
  }

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
  using inner = detail::schedule::type_or<kind::allgather, circulant::allgather, Inside>;
  using outer = detail::schedule::type_or<kind::broadcast, binomial::broadcast, Between>;
  static constexpr auto collective = kind::broadcast;
  two_level shape{};
  int root = 0;

  constexpr bool supports(int p) const {
    return shape.nodes.holds(p) && root >= 0 && root < p && at_level(p).all.fits(within(), across());
  }
  constexpr int blocks(int p) const { return at_level(p).blocks(); }
  constexpr int rounds(int p) const {
    const auto level = at_level(p);
    return detail::schedule::path_to_root{level, root}.rounds() + level.rounds_between(across()) +
           level.rounds_up(within());
  }
  constexpr step at(int r, int p, int k) const {
    const auto level = at_level(p);
    const auto me = level.all.of(r);
    const detail::schedule::path_to_root path{level, root};
    const int begun = path.rounds(), down = begun + level.rounds_between(across());
    if (k < begun) return path.scatter(me, r, k);
    if (k < down) return level.between(across(), me, k - begun, path.at.node);
    return level.down(within(), me, r, k - down);
  }

 private:
  constexpr inner within() const { return detail::schedule::schedule_or<inner::collective, inner>(shape.inside); }
  constexpr outer across() const { return detail::schedule::schedule_or<outer::collective, outer>(shape.between); }
  constexpr auto at_level(int p) const {
    return detail::schedule::level_of_vector({shape.nodes, shape.lanes, p}, across());
  }
};

/// The ranks of a node notify one leader, the leaders run a barrier, and each leader notifies its ranks.
template <class Inside, class Between>
struct two_level<Inside, Between>::barrier {
  using outer = detail::schedule::type_or<kind::barrier, dissemination::barrier, Between>;
  static constexpr auto collective = kind::barrier;
  two_level shape{};

  constexpr bool supports(int p) const { return shape.nodes.holds(p) && at_level(p).all.fits_between(across()); }
  static constexpr int blocks(int) { return 1; }
  constexpr int rounds(int p) const {
    const auto level = at_level(p);
    return 2 * level.all.joining() + level.rounds_between(across());
  }
  constexpr step at(int r, int p, int k) const {
    const auto level = at_level(p);
    const auto me = level.all.of(r);
    const int up = level.all.joining(), over = level.rounds_between(across());
    if (k >= up && k < up + over) return level.between(across(), me, k - up);
    const bool told = k < up;
    const step joins = level.all.reduce_to_leader(me, r, told ? k : up - 1 - (k - up - over), level.cut.all(level.all));
    return detail::schedule::backwards(told ? detail::schedule::backwards(joins) : joins);  // nothing is combined
  }

 private:
  constexpr outer across() const { return detail::schedule::schedule_or<outer::collective, outer>(shape.between); }
  constexpr auto at_level(int p) const {
    return detail::schedule::hierarchical_phases<detail::schedule::lanes_of_vector>{{shape.nodes, 1, p}, {1}};
  }
};

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two levels: inside the nodes one algorithm, between them another, on as many lanes as the smallest node has ranks.
#pragma once

#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/family.hpp>
#include <kolo/schedule/topology.hpp>

namespace kolo::inline v0 {

/// A family made of two: `two_level<two_shot, ring>{.nodes = {.ranks_per_node = 8}}`.
///
/// Before  as the kind says (`schedule/promise.hpp`); m lanes of as many blocks as Between has, m the ranks of the smallest node.
/// After   as the kind says.
/// Cost    allreduce: a reduce_scatter of n bytes among m ranks, an allreduce of n/m bytes among as many ranks as there are nodes,
///         and an allgather of n bytes among m. In a larger node neighbours act as one: for each rank beyond the first of the
///         largest such group two more rounds of n bytes.
/// Order   the order of the ranks, if both families keep it.
/// Errors  supports only the sizes that the nodes hold. Where nodes differ, or Between is folded (see `fold`), the peers of both must
///         be single ranks. Inside has one block a rank, and none has scratch.
/// Source  lanes: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER 2020.
template <class Inside = circulant, class Between = circulant>
struct two_level {
  topology nodes{};
  [[no_unique_address]] Inside inside{};
  [[no_unique_address]] Between between{};
  struct allreduce;
};

template <class Inside, class Between>
struct two_level<Inside, Between>::allreduce {
  using inner = decltype(schedule_of<kind::reduce_scatter>(Inside{}));
  using outer = decltype(schedule_of<kind::allreduce>(Between{}));
  static constexpr auto collective = kind::allreduce;
  static constexpr bool ordered = is_ordered<inner>() && is_ordered<outer>();
  two_level shape{};

  constexpr bool supports(int p) const {
    if (!shape.nodes.holds(p)) return false;
    const int m = lanes(p), n = shape.nodes.nodes(p);
    return (m == 1 || (fits(within(), m, p) && within().blocks(m) == m)) && (n == 1 || fits(across(), n, p));
  }
  constexpr int blocks(int p) const { return lanes(p) * lane_blocks(p); }
  constexpr int rounds(int p) const { return 2 * joins(p) + 2 * inner_rounds(p) + outer_rounds(p); }
  constexpr int reduce_rounds(int p) const {
    const int n = shape.nodes.nodes(p);
    if (n > 1) return joins(p) + inner_rounds(p) + kolo::reduce_rounds(across(), n);
    return joins(p) + kolo::reduce_rounds(within(), lanes(p));
  }

  constexpr step at(int r, int p, int k) const {
    const seat me = seat_of(r, p);
    const int last = rounds(p) - 1, joining = joins(p), m = lanes(p), scattering = inner_rounds(p);
    if (k < joining) return join(me, r, p, k + 1);
    if (k > last - joining) return detail::backwards(join(me, r, p, last - k + 1));
    if (me.behind > 0) return {};
    k -= joining;
    if (k < scattering) return inside(within().at(me.lane, m, k), me, p);
    k -= scattering;
    if (k < outer_rounds(p)) return between(across().at(me.node, shape.nodes.nodes(p), k), me, p);
    return detail::backwards(inside(within().at(me.lane, m, scattering - 1 - (k - outer_rounds(p))), me, p));
  }

 private:
  /// Where a rank is: the lane whose run of neighbours it belongs to, and how many of them are before it. The first acts for all.
  struct seat {
    int node, lane, behind, run;
  };

  constexpr inner within() const { return schedule_of<kind::reduce_scatter>(shape.inside); }
  constexpr outer across() const { return schedule_of<kind::allreduce>(shape.between); }
  constexpr int lanes(int p) const { return shape.nodes.fewest(p); }
  constexpr int inner_rounds(int p) const { return lanes(p) > 1 ? within().rounds(lanes(p)) : 0; }
  constexpr int outer_rounds(int p) const { return shape.nodes.nodes(p) > 1 ? across().rounds(shape.nodes.nodes(p)) : 0; }
  constexpr int lane_blocks(int p) const { return shape.nodes.nodes(p) > 1 ? across().blocks(shape.nodes.nodes(p)) : 1; }
  constexpr int joins(int p) const { return (shape.nodes.most(p) - 1) / lanes(p); }
  constexpr bool are_equal(int p) const { return shape.nodes.most(p) == lanes(p); }

  constexpr extent run_of(int node, int lane, int p) const {
    return block(static_cast<std::size_t>(shape.nodes.size(node, p)), lanes(p), lane);
  }
  constexpr seat seat_of(int r, int p) const {
    const int node = shape.nodes.node_of(r, p);
    const auto place = static_cast<std::size_t>(r - shape.nodes.first(node, p));
    int lane = 0;
    while (place - run_of(node, lane, p).first >= run_of(node, lane, p).count) ++lane;
    const extent run = run_of(node, lane, p);
    return {node, lane, static_cast<int>(place - run.first), static_cast<int>(run.count)};
  }
  constexpr int rank_of(int node, int lane, int p) const {
    return shape.nodes.first(node, p) + static_cast<int>(run_of(node, lane, p).first);
  }

  /// Can its peers be renamed?
  template <Schedule S>
  constexpr bool fits(const S& s, int size, int p) const {
    if (!kolo::supports(s, size) || scratch_blocks(s, size) > 0) return false;
    for (int r = 0; r < (are_equal(p) ? 1 : size); ++r)
      for (int k = 0; k < s.rounds(size); ++k)
        for (const transfer& t : step{s.at(r, size, k)})
          for (const peer_range& peers : {t.to, t.from})
            if (peers.count > 1 && (!are_equal(p) || peers.pairs > 0)) return false;
    return true;
  }

  constexpr step join(const seat& me, int r, int p, int which) const {
    const block_range all{0, blocks(p)};
    if (me.behind == which) return transfer{.to = r - which, .send = all};
    if (me.behind == 0 && which < me.run) return transfer{.from = r + which, .receive = all, .then = arrival::mine_first};
    return {};
  }
  constexpr step inside(const step& now, const seat& me, int p) const {
    const int m = lanes(p);
    const auto peers = [&](const peer_range& l) {
      if (l.count == 0) return peer_range{};
      if (l.count == 1) return peer_range{rank_of(me.node, l.at(0, m), p)};
      return peer_range{rank_of(me.node, l.first, p), l.count, l.stride, l.cycle > 0 ? l.cycle : m};
    };
    const auto blocks_of = [b = lane_blocks(p)](const block_range& l) {
      return block_range{l.first * b, l.count * b, l.stride * b, l.run * b, l.per_peer * b, l.cycle * b};
    };
    step renamed;
    for (const transfer& t : now) renamed += {peers(t.to), blocks_of(t.send), peers(t.from), blocks_of(t.receive), t.then};
    return renamed;
  }
  constexpr step between(const step& now, const seat& me, int p) const {
    const int m = lanes(p), n = shape.nodes.nodes(p), b = lane_blocks(p);
    const auto peers = [&](const peer_range& of) {
      if (of.count == 0) return peer_range{};
      if (of.count == 1) return peer_range{rank_of(of.at(0, n), me.lane, p)};
      return peer_range{rank_of(of.first, me.lane, p), of.count, of.stride * m, of.cycle > 0 ? of.cycle : n};
    };
    const auto blocks_of = [&](block_range in_lane) {
      in_lane.first += me.lane * b;
      if (in_lane.cycle == 0) in_lane.cycle = b;
      return in_lane;
    };
    step renamed;
    for (const transfer& t : now) renamed += {peers(t.to), blocks_of(t.send), peers(t.from), blocks_of(t.receive), t.then};
    return renamed;
  }
};

}  // namespace kolo::inline v0

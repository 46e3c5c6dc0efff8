// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layout of ranks on nodes and lanes, which all schedules of two levels share.
#pragma once

#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/family.hpp>
#include <kolo/schedule/topology.hpp>

#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// The family's schedule of the kind of `Otherwise`, which is the schedule if it has none.
template <Schedule Otherwise, class Family>
constexpr auto schedule_or(const Family& family) {
  if constexpr (AlgorithmFor<Family, Otherwise::collective>) return schedule_of<Otherwise::collective>(family);
  else return Otherwise{};
}

constexpr step renamed(const step& now, auto peers, auto blocks) {
  step to;
  for (const transfer& t : now)
    to += {peers(t.to), t.to.count > 0 ? blocks(t.send) : block_range{}, peers(t.from),
           t.from.count > 0 ? blocks(t.receive) : block_range{}, t.then};
  return to;
}

/// The position of a rank: its node, the lane of its run of neighbours, its index in the run, and the run's length.
struct node_position {
  int node, lane, index, run;
};

/// p ranks on n nodes. The ranks of a node form m runs of neighbours; the first rank of run l is its leader, and
/// exchanges messages with other nodes on lane l.
class node_layout {
 public:
  int p, n, m;

  /// `lanes`: limited to the ranks of the smallest node; 0: exactly that number.
  constexpr node_layout(const topology& on, int lanes, int ranks)
      : p{ranks}, n{on.nodes(ranks)}, m{on.fewest(ranks)}, on_{on}, most_{on.most(ranks)} {
    fewest_ = m;
    if (lanes > 0 && lanes < m) m = lanes;
  }

  constexpr bool has_equal_nodes() const { return most_ == fewest_; }
  /// Whether all leaders are equally far apart.
  constexpr bool has_equal_runs() const { return has_equal_nodes() && most_ % m == 0; }
  constexpr int run() const { return most_ / m; }                           ///< ranks in every run, if runs are equal
  constexpr int most() const { return most_; }                              ///< ranks of the largest node
  constexpr int joining() const { return ceil_log2((most_ + m - 1) / m); }  ///< rounds of a tree over the longest run
  constexpr int first(int node) const { return on_.first(node, p); }        ///< p for node n
  constexpr int size(int node) const { return on_.size(node, p); }

  constexpr extent run_of(int node, int lane) const { return block(std::size_t(size(node)), m, lane); }
  /// The leader of a lane on a node.
  constexpr int rank(int node, int lane) const { return first(node) + int(run_of(node, lane).first); }
  constexpr node_position of(int r) const {
    const int node = on_.node_of(r, p);
    const int index = r - first(node), lane = topology::block_of(size(node), m, index);
    const extent run = run_of(node, lane);
    return {node, lane, index - int(run.first), int(run.count)};
  }

  /// The leaders of the lanes of a node, as ranks; in a circle from `first_lane` on.
  constexpr peer_range inside(const peer_range& lanes, int node, int first_lane = 0) const {
    if (lanes.count == 0) return {};
    if (lanes.count == 1) return rank(node, mod(lanes.at(0, m) + first_lane, m));
    return {rank(node, mod(lanes.first + first_lane, m)), lanes.count, lanes.stride * run(),
            lanes.cycle > 0 ? lanes.cycle : m};
  }
  /// The leaders of the nodes on a lane, as ranks; in a circle from `first_node` on.
  constexpr peer_range across(const peer_range& nodes, int lane, int first_node = 0) const {
    if (nodes.count == 0) return {};
    if (nodes.count == 1) return rank(mod(nodes.at(0, n) + first_node, n), lane);
    return {rank(mod(nodes.first + first_node, n), lane), nodes.count, nodes.stride * most_,
            nodes.cycle > 0 ? nodes.cycle : n};
  }

  /// Whether the peers of a schedule for the lanes of a node, or for the nodes, can be renamed; with `in_parts`, also
  /// its blocks.
  constexpr bool fits_inside(const Schedule auto& s, bool in_parts) const {
    return m == 1 || (can_rename(s, m, has_equal_runs(), in_parts) && s.blocks(m) == m);
  }
  constexpr bool fits_between(const Schedule auto& s, bool in_parts) const {
    return n == 1 || (can_rename(s, n, has_equal_nodes(), in_parts) && (!in_parts || s.blocks(n) == n));
  }
  /// A round of a tree within a run: the leader ends with the combination of the blocks `all` of all ranks of the run.
  constexpr step reduce_to_leader(const node_position& me, int r, int k, const block_range& all) const {
    return renamed(
        binomial::reduce::at(me.index, me.run, k),
        [&](const peer_range& of) { return in_run(of, r - me.index, me.run); },
        [&](const block_range&) { return all; });
  }
  /// The same with `each` blocks per rank, which are concatenated.
  constexpr step collect(const node_position& me, int r, int k, int each) const {
    const int first = r - me.index;
    return renamed(
        binomial::gather::at(me.index, me.run, k), [&](const peer_range& of) { return in_run(of, first, me.run); },
        [&](const block_range& of) {
          return block_range{(first + of.first) * each, of.count * each};
        });
  }

 private:
  /// If ranks are not `equally` far apart, peers must be single ranks. Parts must be neighbouring blocks.
  template <Schedule S>
  static constexpr bool can_rename(const S& s, int size, bool equally, bool in_parts) {
    if (!kolo::supports(s, size) || scratch_blocks(s, size) > 0) return false;
    constexpr bool rotates =
        S::collective == kind::broadcast || S::collective == kind::reduce || S::collective == kind::gather;
    for (int r = 0; r < (is_relative<S>() ? 1 : size); ++r)
      for (int k = 0; k < s.rounds(size); ++k)
        for (const transfer& t : step{s.at(r, size, k)}) {
          for (const peer_range& peers : {t.to, t.from})
            if (peers.count > 1 && (!equally || (rotates && peers.cycle > 0))) return false;
          if (in_parts &&
              !((t.to.count == 0 || are_neighbours<S>(t.send)) && (t.from.count == 0 || are_neighbours<S>(t.receive))))
            return false;
        }
    return true;
  }
  static constexpr peer_range in_run(const peer_range& of, int first, int size) {
    return of.count == 0 ? peer_range{} : peer_range{first + of.at(0, size)};
  }
  template <Schedule S>
  static constexpr bool are_neighbours(const block_range& range) {
    const bool is_one_run = range.count <= range.run || (range.stride == range.run && S::collective != kind::alltoall);
    return is_one_run && range.cycle == 0 && (range.per_peer == 0 || (range.per_peer == 1 && range.count == 1));
  }

  topology on_;
  int most_, fewest_ = 0;
};

/// Splits transfers to circles of `size` peers, each with blocks of its own, in two where the blocks wrap around the
/// end of the circle.
constexpr step split_at(const step& now, int size) {
  const auto cut = [size](peer_range& peers, const block_range& blocks, peer_range& rest, block_range& rest_blocks) {
    const int fit = size - mod(blocks.first, size);
    if (blocks.per_peer == 0 || peers.count <= fit) return;
    rest = peers;
    rest.first = peers.at(fit, size);
    rest.count = peers.count - fit;
    rest_blocks = blocks;
    rest_blocks.first -= mod(blocks.first, size);
    peers.count = fit;
  };
  step transfers;
  for (const transfer& t : now) {
    transfer before = t, behind{.then = t.then};
    cut(before.to, before.send, behind.to, behind.send);
    cut(before.from, before.receive, behind.from, behind.receive);
    transfers += before;
    if (behind.to.count + behind.from.count > 0) transfers += behind;
  }
  return transfers;
}

/// The rounds of two levels: a schedule for the lanes of a node, and one for the nodes on a lane. `Inner` and `Outer`
/// replace what the families lack. `cut` gives the blocks of a lane in a node, and of a node on a lane:
/// `cut.inside(node_layout, range)`, `cut.across(node_layout, range, lane, first_node)`, `cut.all(node_layout)`; and
/// splits transfers where needed: `cut.split_inside(node_layout, step)`, `cut.split_between(node_layout, step)`.
template <class Cut, class Family, Schedule Inner, Schedule Outer>
struct hierarchical_phases {
  using inner = decltype(schedule_or<Inner>(std::declval<Family>().inside));
  using outer = decltype(schedule_or<Outer>(std::declval<Family>().between));
  static constexpr bool ordered = is_ordered<inner>() && is_ordered<outer>();
  [[no_unique_address]] inner within;
  [[no_unique_address]] outer across;
  [[no_unique_address]] Cut cut;
  node_layout all;  // last: where g++ sees empty members lie, there is something initialised

  constexpr hierarchical_phases(const Family& shape, const node_layout& on)
      : within{schedule_or<Inner>(shape.inside)},
        across{schedule_or<Outer>(shape.between)},
        cut{cut_for(on, across)},
        all{on} {}
  constexpr hierarchical_phases(const Family& shape, int p)
      : hierarchical_phases{shape, {shape.nodes, shape.lanes, p}} {}

  constexpr bool fits() const {
    return all.fits_inside(within, Cut::in_parts) && all.fits_between(across, Cut::in_parts);
  }
  constexpr int blocks() const { return cut.all(all).count; }
  constexpr int rounds_inside() const { return all.m > 1 ? within.rounds(all.m) : 0; }
  /// The rounds of `up`; `down` takes as many.
  constexpr int rounds_up() const { return all.joining() + rounds_inside(); }
  constexpr int rounds_between() const { return all.n > 1 ? across.rounds(all.n) : 0; }
  constexpr int reduce_rounds_between() const { return all.n > 1 ? schedule::reduce_rounds(across, all.n) : 0; }

  /// Up: at the end every leader has what the ranks of its node contribute to its lane.
  constexpr step up(const node_position& me, int r, int k) const {
    if (k < all.joining()) return all.reduce_to_leader(me, r, k, cut.all(all));
    return inside(me, k - all.joining());
  }
  /// Down: at the end all ranks of the node have the blocks of all its lanes.
  constexpr step down(const node_position& me, int r, int k) const {
    const int spreading = rounds_inside();
    if (k < spreading) return inside(me, k);
    return backwards(all.reduce_to_leader(me, r, all.joining() - 1 - (k - spreading), cut.all(all)));
  }
  constexpr step inside(const node_position& me, int k) const {
    if (me.index > 0) return {};
    return renamed(
        cut.split_inside(all, within.at(me.lane, all.m, k)),
        [&](const peer_range& lanes) { return all.inside(lanes, me.node); },
        [&](const block_range& of) { return cut.inside(all, of); });
  }
  /// Between nodes, on every lane; node `first_node` is the first.
  constexpr step between(const node_position& me, int k, int first_node = 0) const {
    if (me.index > 0) return {};
    return renamed(
        cut.split_between(all, across.at(mod(me.node - first_node, all.n), all.n, k)),
        [&](const peer_range& nodes) { return all.across(nodes, me.lane, first_node); },
        [&](const block_range& of) { return cut.across(all, of, me.lane, first_node); });
  }

 private:
  static constexpr Cut cut_for(const node_layout& on, const outer& across) {
    if constexpr (std::is_empty_v<Cut>) return {};
    else return {on.n > 1 ? across.blocks(on.n) : 1};
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule

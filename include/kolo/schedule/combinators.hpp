// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schedules made of schedules: one after the other, backwards, folded onto a power of two, and sent on to another root.
#pragma once

#include <kolo/schedule/promise.hpp>

namespace kolo::inline v0 {

namespace detail {
inline constexpr auto nothing = static_cast<kind>(-1);
constexpr kind kind_of_sequence(kind a, kind b) {
  if (a == kind::reduce_scatter && b == kind::allgather) return kind::allreduce;
  if (a == kind::reduce_scatter && b == kind::gather) return kind::reduce;
  if (a == kind::scatter && b == kind::allgather) return kind::broadcast;
  return nothing;
}
constexpr kind kind_of_reverse(kind k) {
  if (k == kind::reduce_scatter) return kind::allgather;
  if (k == kind::gather) return kind::scatter;
  if (k == kind::scatter) return kind::gather;
  if (k == kind::reduce) return kind::broadcast;
  return nothing;
}
}  // namespace detail

/// First A, then B, over the same blocks: reduce_scatter + allgather = allreduce, scatter + allgather = broadcast.
template <Schedule A, Schedule B>
struct sequence {
  static constexpr auto collective = detail::kind_of_sequence(A::collective, B::collective);
  static_assert(collective != detail::nothing,
                "kolo: only reduce_scatter + allgather, reduce_scatter + gather and scatter + allgather make a collective, in this order");
  static constexpr bool ordered = is_ordered<A>();
  static constexpr bool relative = is_relative<A>() && is_relative<B>();
  [[no_unique_address]] A first{};
  [[no_unique_address]] B second{};

  /// Both, if they cut the vector into the same blocks.
  constexpr bool supports(int p) const {
    return kolo::supports(first, p) && kolo::supports(second, p) && first.blocks(p) == second.blocks(p);
  }
  constexpr int blocks(int p) const { return first.blocks(p); }
  constexpr int scratch(int p) const {
    const int a = scratch_blocks(first, p), b = scratch_blocks(second, p);
    return a > b ? a : b;
  }
  constexpr int rounds(int p) const { return first.rounds(p) + second.rounds(p); }
  constexpr int reduce_rounds(int p) const { return kolo::reduce_rounds(first, p); }
  constexpr step at(int r, int p, int k) const {
    return k < first.rounds(p) ? step{first.at(r, p, k)} : step{second.at(r, p, k - first.rounds(p))};
  }
};

/// S with time and arrows reversed and nothing combined: what a reduce-scatter collects, an allgather hands back.
template <Schedule S>
struct reverse {
  static constexpr auto collective = detail::kind_of_reverse(S::collective);
  static_assert(collective != detail::nothing, "kolo: only reduce_scatter, reduce, gather and scatter have a reverse");
  static constexpr bool relative = is_relative<S>();
  [[no_unique_address]] S forwards{};

  constexpr bool supports(int p) const { return kolo::supports(forwards, p); }
  constexpr int blocks(int p) const { return forwards.blocks(p); }
  constexpr int scratch(int p) const { return scratch_blocks(forwards, p); }
  constexpr int rounds(int p) const { return forwards.rounds(p); }
  constexpr step at(int r, int p, int k) const {
    step backwards;
    for (const transfer& t : step{forwards.at(r, p, forwards.rounds(p) - 1 - k)})
      backwards += {.to = t.from, .send = t.receive, .from = t.to, .receive = t.send};
    return backwards;
  }
};

/// An allreduce S for powers of two, for any size: the first 2 (p - p') ranks pair up, the even one of a pair acts for both.
/// Costs two rounds more; neighbours pair up, so the order of the ranks is kept. The peers of S are single ranks, not ranges.
template <Schedule S>
  requires(S::collective == kind::allreduce)
struct fold {
  static constexpr auto collective = kind::allreduce;
  static constexpr bool ordered = is_ordered<S>();
  [[no_unique_address]] S core{};

  constexpr bool supports(int p) const { return kolo::supports(core, floor_power_of_two(p)); }
  constexpr int blocks(int p) const { return core.blocks(floor_power_of_two(p)); }
  constexpr int scratch(int p) const { return scratch_blocks(core, floor_power_of_two(p)); }
  constexpr int rounds(int p) const { return core.rounds(floor_power_of_two(p)) + (is_folded(p) ? 2 : 0); }
  constexpr int reduce_rounds(int p) const {
    return kolo::reduce_rounds(core, floor_power_of_two(p)) + (is_folded(p) ? 1 : 0);
  }
  constexpr step at(int r, int p, int k) const {
    if (!is_folded(p)) return core.at(r, p, k);
    const int q = floor_power_of_two(p), pairs = p - q;
    const bool in_pair = r < 2 * pairs, acts = !in_pair || r % 2 == 0;
    const block_range all{0, blocks(p)};
    if (k == 0) {
      if (!in_pair) return {};
      return acts ? transfer{.from = r + 1, .receive = all, .then = arrival::mine_first} : transfer{.to = r - 1, .send = all};
    }
    if (k == rounds(p) - 1) {
      if (!in_pair) return {};
      return acts ? transfer{.to = r + 1, .send = all} : transfer{.from = r - 1, .receive = all};
    }
    if (!acts) return {};
    step renamed;
    for (transfer t : step{core.at(in_pair ? r / 2 : r - pairs, q, k - 1)}) {
      t.to = outer(t.to, pairs);
      t.from = outer(t.from, pairs);
      renamed += t;
    }
    return renamed;
  }

 private:
  static constexpr bool is_folded(int p) { return floor_power_of_two(p) != p; }
  static constexpr peer_range outer(peer_range one, int pairs) {
    if (one.count > 1) throw std::logic_error("kolo: fold takes schedules with single peers");
    if (one.count == 0) return {};
    return one.first < pairs ? 2 * one.first : one.first + pairs;
  }
};

/// A reduce S that ends at `root` although every rank keeps its place: at rank 0 first, then sent on. For operators that do not
/// commute, since a rotation would bring the ranks out of order. Costs one round more.
template <Schedule S>
  requires(S::collective == kind::reduce)
struct forwarded {
  static constexpr auto collective = kind::reduce;
  static constexpr bool ordered = is_ordered<S>();
  int root = 0;
  [[no_unique_address]] S core{};

  constexpr bool supports(int p) const { return root >= 0 && root < p && kolo::supports(core, p); }
  constexpr int blocks(int p) const { return core.blocks(p); }
  constexpr int scratch(int p) const { return scratch_blocks(core, p); }
  constexpr int rounds(int p) const { return core.rounds(p) + (root == 0 ? 0 : 1); }
  constexpr int reduce_rounds(int p) const { return kolo::reduce_rounds(core, p); }
  constexpr step at(int r, int p, int k) const {
    if (k < core.rounds(p)) return core.at(r, p, k);
    const block_range all{0, blocks(p)};
    if (r == 0) return transfer{.to = root, .send = all};
    if (r == root) return transfer{.from = 0, .receive = all};
    return {};
  }
};

}  // namespace kolo::inline v0

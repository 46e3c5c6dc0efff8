// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schedules made of schedules: in sequence, reversed, folded onto fewer ranks, and forwarded to another root.
#pragma once

#include <kolo/schedule/semantics.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {
inline constexpr auto nothing = static_cast<kind>(-1);
constexpr kind kind_of_sequence(kind a, kind b) {
  if (a == kind::reduce_scatter && b == kind::allgather) return kind::allreduce;
  if (a == kind::reduce_scatter && b == kind::gather) return kind::reduce;
  if (a == kind::scatter && b == kind::allgather) return kind::broadcast;
  if (a == kind::reduce && b == kind::broadcast) return kind::allreduce;
  return nothing;
}
constexpr kind kind_of_reverse(kind k) {
  if (k == kind::reduce_scatter) return kind::allgather;
  if (k == kind::gather) return kind::scatter;
  if (k == kind::scatter) return kind::gather;
  if (k == kind::reduce) return kind::broadcast;
  return nothing;
}
constexpr transfer backwards(const transfer& t, arrival then = arrival::replace) {
  return {.to = t.from, .send = t.receive, .from = t.to, .receive = t.send, .then = then};
}
constexpr step backwards(const step& now) {
  step reversed;
  for (const transfer& t : now) reversed += backwards(t);
  return reversed;
}

/// What an S can be constructed from: another S, or the parameters of its family.
template <class P, class S>
concept ParametersOf = requires(const P& p) {
  S{p};
};
}  // namespace detail::schedule

/// First A, then B, over the same blocks: reduce_scatter + allgather = allreduce, scatter + allgather = broadcast, ...
template <Schedule A, Schedule B>
struct sequence {
  static constexpr auto collective = detail::schedule::kind_of_sequence(A::collective, B::collective);
  static_assert(collective != detail::schedule::nothing,
                "kolo: only reduce_scatter + allgather, reduce_scatter + gather, scatter + allgather and reduce + "
                "broadcast make a "
                "collective, in this order");
  static constexpr bool ordered = is_ordered<A>();
  static constexpr bool relative = is_relative<A>() && is_relative<B>();
  [[no_unique_address]] A first{};
  [[no_unique_address]] B second{};

  constexpr sequence() = default;  // no aggregate: clang 15 to 18 crash on a member aggregate whose members are empty
  constexpr sequence(const A& a, const B& b) : first{a}, second{b} {}
  /// Constructs both from the same parameters.
  template <detail::schedule::ParametersOf<A> P>
    requires detail::schedule::ParametersOf<P, B>
  constexpr explicit sequence(const P& p) : first{p}, second{p} {}

  /// Whether both support p, and cut the vector into the same blocks.
  constexpr bool supports(int p) const {
    return kolo::supports(first, p) && kolo::supports(second, p) && first.blocks(p) == second.blocks(p);
  }
  constexpr int blocks(int p) const { return first.blocks(p); }
  constexpr int scratch(int p) const {
    const int a = detail::schedule::scratch_blocks(first, p), b = detail::schedule::scratch_blocks(second, p);
    return a > b ? a : b;
  }
  constexpr int rounds(int p) const { return first.rounds(p) + second.rounds(p); }
  constexpr int reduce_rounds(int p) const { return kolo::detail::schedule::reduce_rounds(first, p); }
  constexpr step at(int r, int p, int k) const {
    return k < first.rounds(p) ? step{first.at(r, p, k)} : step{second.at(r, p, k - first.rounds(p))};
  }
};

/// S with rounds and directions reversed and nothing combined: a reduce_scatter becomes an allgather.
template <Schedule S>
struct reverse {
  static constexpr auto collective = detail::schedule::kind_of_reverse(S::collective);
  static_assert(collective != detail::schedule::nothing,
                "kolo: only reduce_scatter, reduce, gather and scatter have a reverse");
  static constexpr bool relative = is_relative<S>();
  [[no_unique_address]] S forwards{};

  constexpr reverse() = default;  // no aggregate, see `sequence`
  constexpr explicit reverse(const detail::schedule::ParametersOf<S> auto& p) : forwards{p} {}

  constexpr bool supports(int p) const { return kolo::supports(forwards, p); }
  constexpr int blocks(int p) const { return forwards.blocks(p); }
  constexpr int scratch(int p) const { return detail::schedule::scratch_blocks(forwards, p); }
  constexpr int rounds(int p) const { return forwards.rounds(p); }
  constexpr step at(int r, int p, int k) const {
    return detail::schedule::backwards(forwards.at(r, p, forwards.rounds(p) - 1 - k));
  }
};

/// Extends an allreduce or reduce_scatter S of powers of two, whose peers are single ranks, to any size p. p' is the
/// largest power of two <= p; the first 2 (p - p') ranks form pairs, and the even rank acts for both. Two more rounds
/// of n bytes each; in a reduce_scatter the second is one block. Pairs are neighbours, so the order of the ranks is
/// kept, and neighbouring blocks stay neighbours: a reduce_scatter S has p' blocks, and ranges without a stride.
template <Schedule S>
  requires(S::collective == kind::allreduce || S::collective == kind::reduce_scatter)
struct fold {
  static constexpr auto collective = S::collective;
  static constexpr bool ordered = is_ordered<S>();
  [[no_unique_address]] S core{};

  constexpr fold() = default;  // no aggregate, see `sequence`
  constexpr explicit fold(const detail::schedule::ParametersOf<S> auto& p) : core{p} {}

  constexpr bool supports(int p) const {
    const int q = acting(p);
    return kolo::supports(core, q) && (!detail::schedule::has_parts(collective) || core.blocks(q) == q);
  }
  constexpr int blocks(int p) const { return detail::schedule::has_parts(collective) ? p : core.blocks(acting(p)); }
  constexpr int scratch(int p) const { return detail::schedule::scratch_blocks(core, acting(p)); }
  constexpr int rounds(int p) const { return core.rounds(acting(p)) + (acting(p) == p ? 0 : 2); }
  constexpr int reduce_rounds(int p) const {
    return kolo::detail::schedule::reduce_rounds(core, acting(p)) + (acting(p) == p ? 0 : 1);
  }
  constexpr step at(int r, int p, int k) const {
    const int q = acting(p), pairs = p - q;
    if (pairs == 0) return core.at(r, p, k);
    const bool in_pair = r < 2 * pairs, acts = !in_pair || r % 2 == 0;
    const block_range all{0, blocks(p)},
        his = detail::schedule::has_parts(collective) ? block_range{r / 2 * 2 + 1, 1} : all;
    if (k == 0) {
      if (!in_pair) return {};
      return acts ? transfer{.from = r + 1, .receive = all, .then = arrival::mine_first}
                  : transfer{.to = r - 1, .send = all};
    }
    if (k == rounds(p) - 1) {
      if (!in_pair) return {};
      return acts ? transfer{.to = r + 1, .send = his} : transfer{.from = r - 1, .receive = his};
    }
    if (!acts) return {};
    step renamed;
    for (const transfer& t : step{core.at(in_pair ? r / 2 : r - pairs, q, k - 1)})
      renamed +=
          {outer(t.to, q, pairs), outer(t.send, q, pairs), outer(t.from, q, pairs), outer(t.receive, q, pairs), t.then};
    return renamed;
  }

 private:
  static constexpr int acting(int p) { return floor_power_of_two(p); }
  static constexpr int outer(int rank, int pairs) { return rank < pairs ? 2 * rank : rank + pairs; }
  static constexpr peer_range outer(const peer_range& peers, int q, int pairs) {
    if (peers.count > 1) throw std::logic_error("kolo: fold takes schedules whose peers are single ranks");
    return peers.count == 0 ? peer_range{} : peer_range{outer(peers.at(0, q), pairs)};
  }
  static constexpr block_range outer(const block_range& range, int q, int pairs) {
    if (!detail::schedule::has_parts(collective) || range.count == 0) return range;
    if ((range.stride != range.run && range.count > range.run) || range.per_peer != 0 || range.cycle != 0)
      throw std::logic_error("kolo: fold takes reduce_scatters whose blocks are adjacent");
    const int first = outer(range.first, pairs), end = outer(mod(range.first + range.count, q), pairs);
    return {first, end > first ? end - first : end - first + q + pairs};
  }
};

/// A reduce S to `root` without renumbering: it reduces to rank 0, which sends the result to the root. For operators
/// that do not commute, since a rotation would change the order of the ranks. One more round if the root is not 0.
template <Schedule S>
  requires(S::collective == kind::reduce)
struct forwarded {
  static constexpr auto collective = kind::reduce;
  static constexpr bool ordered = is_ordered<S>();
  int root = 0;
  [[no_unique_address]] S core{};

  constexpr bool supports(int p) const { return root >= 0 && root < p && kolo::supports(core, p); }
  constexpr int blocks(int p) const { return core.blocks(p); }
  constexpr int scratch(int p) const { return detail::schedule::scratch_blocks(core, p); }
  constexpr int rounds(int p) const { return core.rounds(p) + (root == 0 ? 0 : 1); }
  constexpr int reduce_rounds(int p) const { return kolo::detail::schedule::reduce_rounds(core, p); }
  constexpr step at(int r, int p, int k) const {
    if (k < core.rounds(p)) return core.at(r, p, k);
    const block_range all{0, blocks(p)};
    if (r == 0) return transfer{.to = root, .send = all};
    if (r == root) return transfer{.from = 0, .receive = all};
    return {};
  }
};

}  // namespace kolo::inline KOLO_ABI

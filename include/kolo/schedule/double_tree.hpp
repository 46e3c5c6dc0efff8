// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two binary trees whose leaves are inner nodes of the other tree: every rank forwards, and every port is busy.
#pragma once

#include <kolo/schedule/combinators.hpp>

#include <initializer_list>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); B = `segments` blocks.
/// After   the collective's postcondition.
/// Cost    broadcast and reduce: B + 2 floor(lg m) rounds, n/B bytes each, n in all. m is the size of the trees: p-1,
///         or, where that is odd, p-2, with one round more. Where 4 divides m, one round less. Two ranks: B rounds.
///         allreduce: both.
/// Order   the order of the ranks: both trees are numbered from left to right.
/// Errors  supports no number of ranks if `segments` is below 1.
/// Source  Sanders, Speck, Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", ParCo 2009.
struct double_tree {
  int segments = 16;
  struct reduce;
  struct broadcast;
  struct allreduce;
};

namespace detail::schedule {

/// A binary tree over 1 ... m, numbered from left to right; m is even. The lowest set bit of a number gives its height,
/// so odd numbers are leaves. The left child of a missing number replaces it. Node 0 is above the root.
struct numbered_tree {
  int m, root = floor_power_of_two(m);

  constexpr int parent(int i) const {
    if (i == root) return 0;
    do i = (i - (i & -i)) | 2 * (i & -i);
    while (i > m);
    return i;
  }
  /// The child on side -1 or 1; 0 if there is none.
  constexpr int child(int i, int side) const {
    if (i == 0) return side > 0 && m > 0 ? root : 0;
    for (int d = (i & -i) / 2; d > 0; d /= 2)
      if (i + side * d <= m) return i + side * d;
    return 0;
  }
  /// The round in which node i receives segment 0; segment b follows b rounds later. The children of a node receive in
  /// rounds of different parity, i and m + 1 - i in rounds of the same parity. So no rank sends twice or receives twice
  /// in a round if even segments take this tree and odd ones its mirror image, in which i is m + 1 - i.
  constexpr int told(int i) const {
    if (i % 2 != 0) {
      const int soon = told(parent(i)) + 1;
      return soon + (soon + told(m + 1 - i)) % 2;
    }
    int rounds = 0;
    for (int up = parent(i); up != 0; i = up, up = parent(i)) rounds += (up < i) == (m % 4 == 2) ? 1 : 2;
    return rounds;
  }
};

}  // namespace detail::schedule

/// From rank 0 down two trees: even segments in one, odd ones in its mirror image.
struct double_tree::broadcast {
  static constexpr auto collective = kind::broadcast;
  double_tree shape{};
  constexpr bool supports(int) const { return shape.segments > 0; }
  constexpr int blocks(int) const { return shape.segments; }
  constexpr int rounds(int p) const {
    const int above = above_the_trees(p), m = p - 1 - above;
    return shape.segments + above + 2 * ceil_log2(floor_power_of_two(m)) - (m % 4 == 0 ? 1 : 0);
  }
  constexpr step at(int r, int p, int k) const {
    const int above = above_the_trees(p), m = p - 1 - above;
    const detail::schedule::numbered_tree tree{m};
    step now;
    if (r <= 1 && above == 1 && k < shape.segments)
      now += r == 0 ? transfer{.to = 1, .send = {k, 1}} : transfer{.from = 0, .receive = {k, 1}};
    for (int image = 0; image < 2 && r >= above; ++image) {
      const auto mirrored = [&](int i) { return image == 0 ? i : mod(-i, m + 1); };
      const auto rank = [&](int i) { return above + mirrored(i); };
      const auto segment = [&](int i) {  // that node i receives now
        const int b = k - above - tree.told(i);
        return b >= 0 && b < shape.segments && b % 2 == image ? b : nobody;
      };
      const int me = mirrored(r - above);
      if (const int b = me == 0 ? nobody : segment(me); b != nobody)
        now += {.from = rank(tree.parent(me)), .receive = {b, 1}};
      for (const int side : {-1, 1})
        if (const int i = tree.child(me, side); i != 0)
          if (const int b = segment(i); b != nobody) now += {.to = rank(i), .send = {b, 1}};
    }
    return now;
  }

 private:
  /// The trees have an even number of nodes, so where p is even, rank 1 is their node 0 and rank 0 is above it.
  static constexpr int above_the_trees(int p) { return p % 2 == 0 ? 1 : 0; }
};

/// The broadcast in reverse: an operand from a higher rank is the right operand.
struct double_tree::reduce {
  static constexpr auto collective = kind::reduce;
  static constexpr bool ordered = true;
  double_tree shape{};
  constexpr bool supports(int) const { return shape.segments > 0; }
  constexpr int blocks(int) const { return shape.segments; }
  constexpr int rounds(int p) const { return broadcast{shape}.rounds(p); }
  constexpr step at(int r, int p, int k) const {
    step reversed;
    for (const transfer& t : broadcast{shape}.at(r, p, rounds(p) - 1 - k))
      reversed += detail::schedule::backwards(t, t.to.first > r ? arrival::mine_first : arrival::theirs_first);
    return reversed;
  }
};

/// Up both trees, then down. Each direction fills every port, so running both at once would not be faster.
struct double_tree::allreduce {
  static constexpr auto collective = kind::allreduce;
  static constexpr bool ordered = true;
  double_tree shape{};
  constexpr bool supports(int) const { return shape.segments > 0; }
  constexpr int blocks(int) const { return shape.segments; }
  constexpr int rounds(int p) const { return 2 * reduce_rounds(p); }
  constexpr int reduce_rounds(int p) const { return broadcast{shape}.rounds(p); }
  constexpr step at(int r, int p, int k) const {
    const int up = reduce_rounds(p);
    return k < up ? reduce{shape}.at(r, p, k) : broadcast{shape}.at(r, p, k - up);
  }
};

}  // namespace kolo::inline KOLO_ABI

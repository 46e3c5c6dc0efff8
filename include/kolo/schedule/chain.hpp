// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pipelined chain: rank r receives from r - 1 and sends to r + 1, one segment after the other.
#pragma once

#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); B = `segments` blocks.
/// After   the collective's postcondition.
/// Cost    broadcast, reduce and scan: p-2+B rounds, n/B bytes each; exclusive_scan: 2(p-2)+B rounds.
/// Order   the order of the ranks.
/// Errors  supports no number of ranks if `segments` is below 1.
/// Source  Sanders, Speck, Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", ParCo 2009.
struct chain {
  int segments = 16;
  struct broadcast;
  struct reduce;
  struct scan;
  struct exclusive_scan;
};

/// Along the chain, one segment after the other: rank r forwards what rank r - 1 sends.
struct chain::broadcast {
  static constexpr auto collective = kind::broadcast;
  chain shape{};
  constexpr bool supports(int) const { return shape.segments > 0; }
  constexpr int blocks(int) const { return shape.segments; }
  constexpr int rounds(int p) const { return p - 2 + shape.segments; }
  constexpr step at(int r, int p, int k) const { return hand_on(r, p, k, arrival::replace); }

  /// Rank r sends segment b in round r + b, and rank r + 1 receives it in the same round.
  constexpr transfer hand_on(int r, int p, int k, arrival then) const {
    transfer t{.then = then};
    if (const int b = k - r; is_segment(b) && r < p - 1) t.to = r + 1, t.send = {b, 1};
    if (const int b = k - r + 1; is_segment(b) && r > 0) t.from = r - 1, t.receive = {b, 1};
    return t;
  }
  constexpr bool is_segment(int b) const { return b >= 0 && b < shape.segments; }
};

/// The same chain in the other direction.
struct chain::reduce {
  static constexpr auto collective = kind::reduce;
  static constexpr bool ordered = true;
  chain shape{};
  constexpr bool supports(int) const { return shape.segments > 0; }
  constexpr int blocks(int) const { return shape.segments; }
  constexpr int rounds(int p) const { return p - 2 + shape.segments; }
  constexpr step at(int r, int p, int k) const {
    transfer t = broadcast{shape}.hand_on(p - 1 - r, p, k, arrival::mine_first);
    if (t.to.count > 0) t.to = r - 1;
    if (t.from.count > 0) t.from = r + 1;
    return t;
  }
};

/// Along the chain: each rank combines its operand on the right of what arrives, keeps the result and forwards it.
struct chain::scan {
  static constexpr auto collective = kind::scan;
  static constexpr bool ordered = true;
  chain shape{};
  constexpr bool supports(int) const { return shape.segments > 0; }
  constexpr int blocks(int) const { return shape.segments; }
  constexpr int rounds(int p) const { return p - 2 + shape.segments; }
  constexpr step at(int r, int p, int k) const { return broadcast{shape}.hand_on(r, p, k, arrival::theirs_first); }
};

/// A rank handles a segment in three rounds: it receives the combination of the ranks before it into set 1, where it
/// stays; combines it with its own operand in set 0; and sends the result.
struct chain::exclusive_scan {
  static constexpr auto collective = kind::exclusive_scan;
  static constexpr bool ordered = true;
  chain shape{};
  constexpr bool supports(int) const { return shape.segments > 0; }
  constexpr int blocks(int) const { return shape.segments; }
  constexpr int rounds(int p) const { return 2 * (p - 2) + shape.segments; }
  constexpr step at(int r, int p, int k) const {
    const auto is_segment = [this](int b) { return broadcast{shape}.is_segment(b); };
    const int leaves = k - 2 * r, combines = leaves + 1, arrives = leaves + 2;
    const int set_1 = shape.segments;
    step now;
    if (r < p - 1 && is_segment(leaves)) now += {.to = r + 1, .send = {leaves, 1}};
    if (r > 0 && is_segment(arrives)) now += {.from = r - 1, .receive = {set_1 + arrives, 1}};
    if (r > 0 && r < p - 1 && is_segment(combines))
      now +=
          {.to = r, .send = {set_1 + combines, 1}, .from = r, .receive = {combines, 1}, .then = arrival::theirs_first};
    return now;
  }
};

}  // namespace kolo::inline KOLO_ABI

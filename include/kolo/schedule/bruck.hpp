// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bruck's algorithms: ceil(log2 p) rounds for every number of ranks, in steps of 1, 2, 4, ... around the circle.
#pragma once

#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); p blocks.
/// After   the collective's postcondition.
/// Cost    allgather: q rounds, (p-1)/p n bytes in all; no rotation at the end, since ranges of blocks are circular.
///         alltoall: q rounds of at most n/2 bytes, n/2 q in all for powers of two; p blocks of scratch; equal parts
///         only.
/// Order   nothing is combined.
/// Errors  alltoall: invalid_argument for parts of different lengths, since ranks forward parts whose lengths they do
///         not know.
/// Source  Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems",
///         TPDS 1997.
struct bruck {
  /// Rank r holds blocks r, r + 1, ... around the circle. Each round doubles their number, and the last round brings
  /// the rest.
  struct allgather {
    static constexpr auto collective = kind::allgather;
    static constexpr bool relative = true;
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int p, int k) {
      const int known = 1 << k,
                count = known < p - known ? known : p - known;  // r holds the blocks r ... r + known - 1
      const int from = mod(r + known, p);
      return transfer{.to = mod(r - known, p), .send = {r, count}, .from = from, .receive = {from, count}};
    }
  };

  /// A part that must move j ranks further is in scratch block j, and moves 2^k in round k if bit k of j is set. The
  /// first round reads all parts from set 0, sends the odd ones and copies the others to scratch. The last round writes
  /// all parts to set 1: those that arrive, and those that arrived before.
  struct alltoall {
    static constexpr auto collective = kind::alltoall;
    static constexpr int blocks(int p) { return p; }
    static constexpr int scratch(int p) { return p; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int p, int k) {
      const int move = 1 << k, set_1 = p, waiting = 2 * p;
      const bool is_first = k == 0, is_last = k == rounds(p) - 1;
      const block_range moving{.first = waiting + move, .count = number_of(p, k), .stride = 2 * move, .run = move};
      const block_range starting{.first = mod(r + 1, p), .count = p / 2, .stride = 2};
      const block_range ending{.first = set_1 + mod(r - move, p), .count = p - move, .stride = -1};
      step now = transfer{.to = mod(r + move, p),
                          .send = is_first ? starting : moving,
                          .from = mod(r - move, p),
                          .receive = is_last ? ending : moving};
      if (is_first)
        now +=
            alone(r, {r, (p + 1) / 2, 2}, is_last ? block_range{set_1 + r, 1} : block_range{waiting, (p + 1) / 2, 2});
      else if (is_last) now += alone(r, {waiting, move}, {set_1 + r, move, -1});
      return now;
    }

   private:
    static constexpr transfer alone(int r, block_range from, block_range to) {
      return {.to = r, .send = from, .from = r, .receive = to};
    }
    /// The number of integers below p that have bit k set.
    static constexpr int number_of(int p, int k) {
      const int period = 2 << k, beyond = p % period - (1 << k);
      return p / period * (1 << k) + (beyond > 0 ? beyond : 0);
    }
  };
};

}  // namespace kolo::inline KOLO_ABI

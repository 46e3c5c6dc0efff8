// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rabenseifner's allreduce: halves of the vector are exchanged with the nearest partner first, and come back the same
// way.
#pragma once

#include <kolo/schedule/combinators.hpp>

namespace kolo::inline KOLO_ABI {

/// An allreduce of p = 2^m ranks: in round k a rank and its partner share a part of the vector, and each goes on with
/// its half of it; then all is run backwards with nothing combined. `Partners` says who the partner is, and which half
/// is a rank's own: the one that bit k of its place says. Partners of round k have the same bits below k, and another
/// bit k.
template <class Partners>
struct halves {
  static constexpr auto collective = kind::allreduce;
  static constexpr bool ordered = Partners::ordered;
  static constexpr bool supports(int p) { return p == floor_power_of_two(p); }
  static constexpr int blocks(int p) { return p; }
  static constexpr int rounds(int p) { return 2 * ceil_log2(p); }
  static constexpr int reduce_rounds(int p) { return ceil_log2(p); }
  static constexpr step at(int r, int p, int k) {
    const bool combines = k < ceil_log2(p);
    const int level = combines ? k : rounds(p) - 1 - k, partner = Partners::partner(r, p, level);
    const block_range mine = half(Partners::position(r, p), p, level),
                      theirs = half(Partners::position(partner, p), p, level);
    if (combines)
      return transfer{.to = partner, .send = theirs, .from = partner, .receive = mine, .then = arrival::in_rank_order};
    return transfer{.to = partner, .send = mine, .from = partner, .receive = theirs};
  }

 private:
  /// What a rank in this place has after round `level`: bit 0 chose between halves of all, bit 1 between halves of
  /// that, ...
  static constexpr block_range half(int position, int p, int level) {
    int first = 0;
    for (int k = 0; k <= level; ++k) first += (position >> k & 1) * (p >> (k + 1));
    return {first, p >> (level + 1)};
  }
};

/// Before  as the kind says (`schedule/semantics.hpp`); as many blocks as the largest power of two <= p.
/// After   as the kind says.
/// Cost    2 lg p rounds, 2(p-1)/p n bytes in all; where p is no power of two two more rounds of n bytes each (see
///         `fold`).
/// Order   the order of the ranks: what two partners combine are always two neighbouring runs of ranks.
/// Errors  none of its own.
/// Source  Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
struct rabenseifner {
  /// Partners of `halves`: the rank that differs in bit k. Nearest first keeps the order of the ranks.
  struct nearest_first {
    static constexpr bool ordered = true;
    static constexpr int partner(int r, int, int k) { return r ^ (1 << k); }
    static constexpr int position(int r, int) { return r; }
  };
  using allreduce = fold<halves<nearest_first>>;
};

}  // namespace kolo::inline KOLO_ABI

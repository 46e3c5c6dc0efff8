// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rabenseifner's allreduce: partners exchange halves of the vector, nearest partner first, then return them in reverse.
#pragma once

#include <kolo/schedule/combinators.hpp>

namespace kolo::inline KOLO_ABI {

/// An allreduce of p = 2^m ranks: in round k a rank and its partner hold the same part of the vector, and each keeps
/// one half of it; then all rounds run in reverse with nothing combined. `Partners` defines a rank's partner, and its
/// position, whose bit k says which half it keeps in round k. The positions of partners of round k agree in the bits
/// below k and differ in bit k.
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
  /// The blocks that a rank in this position keeps after round `level`: bit 0 selects a half of all blocks, bit 1 a
  /// half of that half, ...
  static constexpr block_range half(int position, int p, int level) {
    int first = 0;
    for (int k = 0; k <= level; ++k) first += (position >> k & 1) * (p >> (k + 1));
    return {first, p >> (level + 1)};
  }
};

/// Before  the collective's precondition (`schedule/semantics.hpp`); as many blocks as the largest power of two <= p.
/// After   the collective's postcondition.
/// Cost    2 lg p rounds, 2(p-1)/p n bytes in all; if p is no power of two, two more rounds of n bytes each (see
///         `fold`).
/// Order   the order of the ranks: partners always combine two neighbouring runs of ranks.
/// Errors  none of its own.
/// Source  Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
struct rabenseifner {
  /// Partners of `halves`: the rank that differs in bit k. The nearest comes first, which keeps the order of the ranks.
  struct nearest_first {
    static constexpr bool ordered = true;
    static constexpr int partner(int r, int, int k) { return r ^ (1 << k); }
    static constexpr int position(int r, int) { return r; }
  };
  using allreduce = fold<halves<nearest_first>>;
};

}  // namespace kolo::inline KOLO_ABI

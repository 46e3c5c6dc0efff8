// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The binomial tree: distances 1, 2, 4, ... towards the root, and the reverse away from it.
#pragma once

#include <kolo/schedule/combinators.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); gather and scatter: p blocks; the others: one.
/// After   the collective's postcondition.
/// Cost    reduce and broadcast: q rounds, n bytes each; gather and scatter: q rounds, (p-1)/p n bytes in all at the
///         root.
/// Order   the order of the ranks: a subtree is a run of neighbouring ranks, and is combined with the run on its left.
/// Errors  none of its own.
/// Source  Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
struct binomial {
  // For every p: before round k, a rank r that 2^k divides has the contributions of ranks r ... min(r + 2^k, p) - 1. If
  // r is an odd multiple of 2^k, it sends them to r - 2^k, whose run ends where they begin; otherwise it receives the
  // next run, if there is one. So the same holds for k + 1. After q rounds 2^q >= p, so rank 0 has all contributions.
  /// The leaves send first; each round halves the ranks that hold a partial result. Rank 0 ends with the combination.
  struct reduce {
    static constexpr auto collective = kind::reduce;
    static constexpr bool ordered = true;
    static constexpr int blocks(int) { return 1; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int p, int k) {
      const int d = 1 << k;  // r holds the combination of ranks r ... r + d - 1
      if (r % (2 * d) == d) return transfer{.to = r - d, .send = {0, 1}};
      if (r % (2 * d) != 0 || r + d >= p) return {};
      return transfer{.from = r + d, .receive = {0, 1}, .then = arrival::mine_first};
    }
  };
  using broadcast = reverse<reduce>;

  /// As `reduce`, but blocks are concatenated: rank 0 ends with all p of them.
  struct gather {
    static constexpr auto collective = kind::gather;
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int p, int k) {
      const int d = 1 << k;  // r holds the blocks r ... min(r + d, p) - 1
      if (r % (2 * d) == d) return transfer{.to = r - d, .send = subtree(r, d, p)};
      if (r % (2 * d) != 0 || r + d >= p) return {};
      return transfer{.from = r + d, .receive = subtree(r + d, d, p)};
    }

   private:
    static constexpr block_range subtree(int r, int d, int p) { return {r, d < p - r ? d : p - r}; }
  };
  using scatter = reverse<gather>;
};

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recursive doubling: each round doubles the number of ranks whose data a rank has.
#pragma once

#include <kolo/schedule/combinators.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); allgather: p blocks; the others: one block.
/// After   the collective's postcondition.
/// Cost    allreduce: lg p rounds, n bytes each; if p is no power of two, two more rounds (see `fold`). allgather: lg p
///         rounds, (p-1)/p n bytes in all; powers of two only. scan: q rounds, n bytes each; exclusive_scan: 1 +
///         ceil(lg(p-1)) rounds, n bytes each.
/// Order   the order of the ranks: partners always combine two neighbouring runs of ranks.
/// Errors  allgather supports powers of two only.
/// Source  Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005;
///         the scans: Hillis and Steele, "Data parallel algorithms", CACM 1986.
struct recursive_doubling {
  // For every p = 2^q: before round k each rank has the contributions of its aligned group of 2^k ranks, combined by
  // one tree. Its partner is in the neighbouring group; together the groups are an aligned group of 2^(k+1). So both
  // have the same tree afterwards, with the lower group on the left. At the end, k = q, the group is all ranks. For
  // other p, `fold` numbers p' groups of one or two neighbours, which keeps the order and makes p' a power of two.

  /// The allreduce for powers of two.
  struct butterfly {
    static constexpr auto collective = kind::allreduce;
    static constexpr bool ordered = true;
    static constexpr bool supports(int p) { return p == floor_power_of_two(p); }
    static constexpr int blocks(int) { return 1; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int, int k) {
      const int partner = r ^ (1 << k);
      return transfer{
          .to = partner, .send = {0, 1}, .from = partner, .receive = {0, 1}, .then = arrival::in_rank_order};
    }
  };
  using allreduce = fold<butterfly>;

  /// Partners exchange all blocks that they hold, so each round doubles their number. For powers of two.
  struct allgather {
    static constexpr auto collective = kind::allgather;
    static constexpr bool supports(int p) { return p == floor_power_of_two(p); }
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int, int k) {
      const int known = 1 << k, partner = r ^ known;
      return transfer{.to = partner,
                      .send = {r / known * known, known},
                      .from = partner,
                      .receive = {partner / known * known, known}};
    }
  };

  /// Each round doubles the number of ranks on the left whose contributions a rank has.
  struct scan {
    static constexpr auto collective = kind::scan;
    static constexpr bool ordered = true;
    static constexpr int blocks(int) { return 1; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int p, int k) { return scanned(0, r, p, 1 << k, 0); }
  };

  /// Every rank receives its left neighbour's block into set 1, and these are scanned.
  struct exclusive_scan {
    static constexpr auto collective = kind::exclusive_scan;
    static constexpr bool ordered = true;
    static constexpr int blocks(int) { return 1; }
    static constexpr int rounds(int p) { return 1 + ceil_log2(p - 1); }
    static constexpr step at(int r, int p, int k) {
      if (k > 0) return scanned(1, r, p, 1 << (k - 1), 1);
      transfer t;
      if (r < p - 1) t.to = r + 1, t.send = {0, 1};
      if (r > 0) t.from = r - 1, t.receive = {1, 1};
      return t;
    }
  };

 private:
  /// Among the ranks from `first` on: a rank has the combination of the d ranks that end with it, and adds that of the
  /// d ranks before those.
  static constexpr transfer scanned(int first, int r, int p, int d, int b) {
    transfer t{.then = arrival::theirs_first};
    if (r >= first && r + d < p) t.to = r + d, t.send = {b, 1};
    if (r - d >= first) t.from = r - d, t.receive = {b, 1};
    return t;
  }
};

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recursive doubling: with every round a rank knows twice as many ranks' data.
#pragma once

#include <kolo/schedule/combinators.hpp>

namespace kolo::inline v0 {

/// Before  as the kind says (`schedule/promise.hpp`); allreduce: one block; allgather: p blocks.
/// After   as the kind says.
/// Cost    allreduce: lg p rounds, n bytes each; where p is no power of two, two more rounds (see `fold`).
///         allgather: lg p rounds, (p-1)/p n bytes in all; powers of two only.
/// Order   the order of the ranks: what two partners combine are always two neighbouring runs of ranks.
/// Errors  allgather supports powers of two only.
/// Source  Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
struct recursive_doubling {
  /// The allreduce of a power of two.
  struct butterfly {
    static constexpr auto collective = kind::allreduce;
    static constexpr bool ordered = true;
    static constexpr bool supports(int p) { return p == floor_power_of_two(p); }
    static constexpr int blocks(int) { return 1; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int, int k) {
      const int partner = r ^ (1 << k);
      return transfer{.to = partner, .send = {0, 1},
                      .from = partner, .receive = {0, 1}, .then = arrival::in_rank_order};
    }
  };
  using allreduce = fold<butterfly>;

  struct allgather {
    static constexpr auto collective = kind::allgather;
    static constexpr bool supports(int p) { return p == floor_power_of_two(p); }
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int, int k) {
      const int known = 1 << k, partner = r ^ known;
      return transfer{.to = partner, .send = {r / known * known, known},
                      .from = partner, .receive = {partner / known * known, known}};
    }
  };
};

}  // namespace kolo::inline v0

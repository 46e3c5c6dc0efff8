// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recursive halving: each round halves the number of blocks that a rank is responsible for.
#pragma once

#include <kolo/schedule/combinators.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); p blocks.
/// After   the collective's postcondition.
/// Cost    lg p rounds, (p-1)/p n bytes in all; if p is no power of two, two more rounds, of n and of 1/p n bytes (see
///         `fold`).
/// Order   any: the first partner is half of all ranks away, so the operator must commute.
/// Errors  none of its own.
/// Source  Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
struct recursive_halving {
  /// The reduce_scatter for powers of two.
  struct halving {
    static constexpr auto collective = kind::reduce_scatter;
    static constexpr bool supports(int p) { return p == floor_power_of_two(p); }
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int p, int k) {
      const int half = p >> (k + 1), partner = r ^ half;
      return transfer{.to = partner,
                      .send = {partner / half * half, half},
                      .from = partner,
                      .receive = {r / half * half, half},
                      .then = arrival::in_rank_order};
    }
  };
  using reduce_scatter = fold<halving>;
};

}  // namespace kolo::inline KOLO_ABI

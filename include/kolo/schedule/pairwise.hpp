// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pairwise exchange: every part goes directly to its rank; each round a rank sends to one and receives from one.
#pragma once

#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); p blocks.
/// After   the collective's postcondition.
/// Cost    p-1 rounds, (p-1)/p n bytes in all.
/// Order   any: reduce_scatter combines r, r - 1, r - 2, ... around the circle, so the operator must commute.
/// Errors  none of its own.
/// Source  Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
struct pairwise {
  /// In round k rank r sends block r + k + 1 directly to its owner.
  struct reduce_scatter {
    static constexpr auto collective = kind::reduce_scatter;
    static constexpr bool relative = true;
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int p) { return p - 1; }
    static constexpr step at(int r, int p, int k) {
      const int to = mod(r + k + 1, p), from = mod(r - k - 1, p);
      return transfer{.to = to, .send = {to, 1}, .from = from, .receive = {r, 1}, .then = arrival::theirs_first};
    }
  };

  /// In round k rank r sends rank r + k + 1 the block for it.
  struct alltoall {
    static constexpr auto collective = kind::alltoall;
    static constexpr bool relative = true;
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int p) { return p - 1; }
    static constexpr step at(int r, int p, int k) {
      const int to = mod(r + k + 1, p), from = mod(r - k - 1, p), set_1 = p;
      step now = transfer{.to = to, .send = {to, 1}, .from = from, .receive = {set_1 + from, 1}};
      if (k == 0) now += {.to = r, .send = {r, 1}, .from = r, .receive = {set_1 + r, 1}};
      return now;
    }
  };
};

}  // namespace kolo::inline KOLO_ABI

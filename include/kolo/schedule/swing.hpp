// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Swing: Rabenseifner's allreduce with partners on alternate sides, which keeps distances on a torus short.
#pragma once

#include <kolo/schedule/rabenseifner.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); as many blocks as the largest power of two <= p.
/// After   the collective's postcondition.
/// Cost    2 lg p rounds, 2(p-1)/p n bytes in all, over distances 1, 1, 3, 5, 11, ...; if p is no power of two, two
///         more rounds of n bytes each, and up to twice these distances (see `fold`).
/// Order   any: partners are on both sides, so the operator must commute.
/// Errors  none of its own.
/// Source  De Sensi et al., "Swing: short-cutting rings for higher bandwidth allreduce", NSDI 2024, arXiv 2401.09356.
struct swing {
  /// Partners of `halves` that alternate between both sides of the ring, at growing distances.
  struct both_sides {
    static constexpr bool ordered = false;
    /// Even ranks move 1, -1, 3, -5, 11, ... to the right, odd ranks to the left.
    static constexpr int partner(int r, int p, int k) { return mod(r % 2 == 0 ? r + distance(k) : r - distance(k), p); }
    /// The highest bit is the parity; the others are the bits above the lowest of the last round's even partner.
    /// Partners of round k agree in the bits below k, since distance(k) and all later ones are equal modulo 2^(k+1).
    static constexpr int position(int r, int p) {
      const int last = ceil_log2(p) - 1, even = r % 2 == 0 ? r : mod(r - distance(last), p);
      return even / 2 | r % 2 << last;
    }

   private:
    static constexpr int distance(int k) { return (1 - (k % 2 == 0 ? -2 : 2) * (1 << k)) / 3; }  // (1 - (-2)^(k+1)) / 3
  };
  using allreduce = fold<halves<both_sides>>;
};

}  // namespace kolo::inline KOLO_ABI

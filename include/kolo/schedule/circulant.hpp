// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The circulant graph: ceil(log2 p) rounds for every number of ranks, and as few bytes as the ring.
#pragma once

#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/combinators.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); p blocks.
/// After   the collective's postcondition.
/// Cost    reduce_scatter and allgather: q rounds, (p-1)/p n bytes in all; allreduce and reduce: twice that.
/// Order   any: blocks are combined along skips around the circle, so the operator must commute.
/// Errors  none of its own.
/// Source  Traff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv 2410.14234, 2024.
struct circulant {
  // For every p, with skips s_0 = p, s_(k+1) = ceil(s_k / 2), s_q = 1: before round k the ranks b - j, 0 <= j < s_k,
  // hold disjoint partial results of block b, which together contain all contributions. At first each rank has its own.
  // In round k rank b - j, for s_(k+1) <= j < s_k, sends its partial result to rank b - (j - s_(k+1)), which combines
  // it. Since s_k <= 2 s_(k+1), that rank is one of the s_(k+1) that remain; it sends no b itself and receives b from
  // no other rank. So the same holds for k + 1. At the end only rank b remains, with all contributions, each once.
  /// Every rank ends with its own block of the combination, after ceil(log2 p) rounds for any p.
  struct reduce_scatter {
    static constexpr auto collective = kind::reduce_scatter;
    static constexpr bool relative = true;
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int p, int k) {
      const int s = skip(p, k), t = skip(p, k + 1);
      return transfer{.to = mod(r + t, p),
                      .send = {mod(r + t, p), s - t},
                      .from = mod(r - t, p),
                      .receive = {r, s - t},
                      .then = arrival::theirs_first};
    }

   private:
    /// p halved k times, rounded up each time.
    static constexpr int skip(int p, int k) {
      for (; k > 0; --k) p = (p + 1) / 2;
      return p;
    }
  };
  using allgather = reverse<reduce_scatter>;
  using allreduce = sequence<reduce_scatter, allgather>;
  using reduce = sequence<reduce_scatter, binomial::gather>;
};

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The circulant graph: logarithmically many rounds for every number of ranks, and not a byte more than the ring.
#pragma once

#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/combinators.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  as the kind says (`schedule/semantics.hpp`); p blocks.
/// After   as the kind says.
/// Cost    reduce_scatter and allgather: q rounds, (p-1)/p n bytes in all; allreduce and reduce: twice that.
/// Order   any: blocks are combined along skips around the circle, so the operator must commute.
/// Errors  none of its own.
/// Source  Traff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv 2410.14234, 2024.
struct circulant {
  // For every p, with skips s_0 = p, s_(k+1) = ceil(s_k / 2), s_q = 1: before round k the ranks that count for block b
  // are b - j, 0 <= j < s_k, and what they hold of it are disjoint contributions, of all ranks together. At first each
  // has its own. In round k rank b - j, for s_(k+1) <= j < s_k, sends what it has to rank b - (j - s_(k+1)), which adds
  // it; that one counts afterwards, since s_k <= 2 s_(k+1), sends no b itself, and receives it from nobody else. So the
  // same holds with k + 1. At the end the only one is rank b, with all of them, each once.
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
    /// p halved k times, each time rounded up.
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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ring: everybody talks to two neighbours only, and the wire is never idle.
#pragma once

#include <kolo/schedule/combinators.hpp>
#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  as the kind says (`schedule/semantics.hpp`); p blocks.
/// After   as the kind says.
/// Cost    reduce_scatter and allgather: (p-1) rounds, (p-1)/p n bytes each; allreduce: both.
/// Order   any: block b is summed from rank b + 1 on around the ring, so the operator must commute.
/// Errors  none of its own.
/// Source  Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
struct ring {
  // For every p: before round k, rank r holds in block r - k - 1 the contributions of ranks r - k ... r, and it is the
  // block that it sends. Rank r + 1, whose own block r - k - 1 nobody has added to, adds it and so has those of ranks
  // (r + 1) - (k + 1) ... r + 1: the same with k + 1. At the end, k = p - 1, it is block r, with each of them once.
  /// Block b travels once around and collects every rank's contribution on its way to rank b.
  struct reduce_scatter {
    static constexpr auto collective = kind::reduce_scatter;
    static constexpr bool relative = true;
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int p) { return p - 1; }
    static constexpr step at(int r, int p, int k) {
      return transfer{.to = mod(r + 1, p),
                      .send = {mod(r - k - 1, p), 1},
                      .from = mod(r - 1, p),
                      .receive = {mod(r - k - 2, p), 1},
                      .then = arrival::theirs_first};
    }
  };
  using allgather = reverse<reduce_scatter>;
  using allreduce = sequence<reduce_scatter, allgather>;
};

}  // namespace kolo::inline KOLO_ABI

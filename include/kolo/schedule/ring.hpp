// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ring: every rank exchanges messages with its two neighbours only, and every link is busy in every round.
#pragma once

#include <kolo/schedule/combinators.hpp>
#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); p blocks.
/// After   the collective's postcondition.
/// Cost    reduce_scatter and allgather: (p-1) rounds, (p-1)/p n bytes each; allreduce: both.
/// Order   any: block b is combined from rank b + 1 on around the ring, so the operator must commute.
/// Errors  none of its own.
/// Source  Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
struct ring {
  // For every p: before round k, rank r has in block r - k - 1 the contributions of ranks r - k ... r, and sends that
  // block. Rank r + 1 still has only its own contribution there, and adds it, so it has those of ranks
  // (r + 1) - (k + 1) ... r + 1: the same for k + 1. At the end, k = p - 1, it is block r, with each contribution once.
  /// Block b travels around the ring once, collects every rank's contribution, and ends at rank b.
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

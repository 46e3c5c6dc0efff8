// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Neighbour exchange: an allgather in half the rounds of the ring, with two blocks to the left and right in turn.
#pragma once

#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); p blocks.
/// After   the collective's postcondition.
/// Cost    p/2 rounds, (p-1)/p n bytes in all.
/// Order   nothing is combined.
/// Errors  supports even numbers of ranks only.
/// Source  Chen et al., "Performance evaluation of allgather algorithms on terascale Linux cluster with fast Ethernet",
///         HPC Asia 2005.
struct neighbour_exchange {
  /// Pairs exchange two blocks with the pair on their left and on their right in turn. For even p.
  struct allgather {
    static constexpr auto collective = kind::allgather;
    static constexpr bool supports(int p) { return p % 2 == 0; }
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int p) { return p / 2; }
    static constexpr step at(int r, int p, int k) {
      const bool goes_right = (r + k) % 2 == 0;
      const int peer = mod(goes_right ? r + 1 : r - 1, p);
      if (k == 0) return transfer{.to = peer, .send = {r, 1}, .from = peer, .receive = {peer, 1}};
      return transfer{.to = peer, .send = {newest(r, p, k - 1), 2}, .from = peer, .receive = {newest(r, p, k), 2}};
    }

   private:
    /// The first of r's two newest blocks after round k: those of pairs further away each round, on alternate sides.
    static constexpr int newest(int r, int p, int k) {
      const int pairs = (k + 1) / 2, own = r / 2 * 2;
      return mod((r + k) % 2 == 0 ? own + 2 * pairs : own - 2 * pairs, p);
    }
  };
};
/// Its name in 0.1.
using neighbour [[deprecated("kolo: write neighbour_exchange")]] = neighbour_exchange;

}  // namespace kolo::inline KOLO_ABI

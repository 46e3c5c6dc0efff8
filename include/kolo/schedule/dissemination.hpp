// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dissemination barrier: with every round a rank has heard of twice as many ranks.
#pragma once

#include <kolo/schedule/schedule.hpp>

namespace kolo::inline v0 {

/// Before  nothing; one empty block.
/// After   every rank has come.
/// Cost    q rounds, no bytes.
/// Order   nothing is combined.
/// Errors  none of its own.
/// Source  Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", Int. J. Parallel Programming 1988.
struct dissemination {
  struct barrier {
    static constexpr auto collective = kind::barrier;
    static constexpr bool relative = true;
    static constexpr int blocks(int) { return 1; }
    static constexpr int rounds(int p) { return ceil_log2(p); }
    static constexpr step at(int r, int p, int k) {
      return transfer{.to = mod(r + (1 << k), p), .send = {0, 1}, .from = mod(r - (1 << k), p), .receive = {0, 1}};
    }
  };
};

}  // namespace kolo::inline v0

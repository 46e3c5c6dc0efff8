// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dissemination barrier: each round multiplies by `radix` the number of ranks whose arrival a rank knows of.
#pragma once

#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); one empty block.
/// After   the collective's postcondition.
/// Cost    ceil(log_radix p) rounds of radix - 1 messages, no bytes.
/// Order   nothing is combined.
/// Errors  supports no number of ranks if the radix is not 2, 3, 4 or 5.
/// Source  Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", Int. J. Parallel Programming 1988.
struct dissemination {
  int radix = 2;
  struct barrier;
};

/// In round k every rank sends an empty message to the ranks i radix^k further around the circle, 0 < i < radix.
struct dissemination::barrier {
  static constexpr auto collective = kind::barrier;
  static constexpr bool relative = true;
  dissemination shape{};
  constexpr bool supports(int) const { return shape.radix >= 2 && shape.radix - 1 <= step::capacity; }
  static constexpr int blocks(int) { return 1; }
  constexpr int rounds(int p) const {
    int k = 0;
    while (known(k) < p) ++k;
    return k;
  }
  constexpr step at(int r, int p, int k) const {
    const int d = int(known(k));
    step now;
    for (int away = d, i = 1; i < shape.radix && away < p; ++i, away += d)
      now += {.to = mod(r + away, p), .send = {0, 1}, .from = mod(r - away, p), .receive = {0, 1}};
    return now;
  }

 private:
  /// The number of ranks whose arrival a rank knows of before round k: itself and those before it.
  constexpr long long known(int k) const {
    long long ranks = 1;
    while (k-- > 0) ranks *= shape.radix;
    return ranks;
  }
};

}  // namespace kolo::inline KOLO_ABI

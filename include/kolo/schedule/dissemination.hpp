// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dissemination barrier: with every round a rank has heard of twice as many ranks, or of `radix` times as many.
#pragma once

#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  nothing; one empty block.
/// After   every rank has come.
/// Cost    ceil(log_radix p) rounds of radix - 1 messages, no bytes.
/// Order   nothing is combined.
/// Errors  supports nothing when the radix is not 2, 3, 4 or 5.
/// Source  Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", Int. J. Parallel Programming 1988.
struct dissemination {
  int radix = 2;
  struct barrier;
};

/// In round k every rank tells radix - 1 others, radix^k apart, that it has come.
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
    const int d = static_cast<int>(known(k));
    step now;
    for (int away = d, i = 1; i < shape.radix && away < p; ++i, away += d)
      now += {.to = mod(r + away, p), .send = {0, 1}, .from = mod(r - away, p), .receive = {0, 1}};
    return now;
  }

 private:
  /// Ranks of which a rank has heard before round k: itself and those before it.
  constexpr long long known(int k) const {
    long long ranks = 1;
    while (k-- > 0) ranks *= shape.radix;
    return ranks;
  }
};

}  // namespace kolo::inline KOLO_ABI

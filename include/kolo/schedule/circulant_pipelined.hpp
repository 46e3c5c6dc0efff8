// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pipelined circulant graph: a long vector in segments, in the least possible rounds for every number of ranks.
#pragma once

#include <kolo/schedule/combinators.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); B = `segments` blocks.
/// After   the collective's postcondition.
/// Cost    B-1+q rounds, n/B bytes each; this is the least possible number of rounds. The root sends (broadcast) or
///         receives (reduce) in all of them.
/// Order   any: segments are combined along skips around the circle, so the operator must commute.
/// Errors  supports no number of ranks if `segments` is below 1.
/// Source  Traff, "Optimal broadcast schedules in logarithmic time with applications to broadcast, all-broadcast,
///         reduction and all-reduction", arXiv 2407.18004, 2024; first in arXiv 2312.11236.
struct circulant_pipelined {
  int segments = 16;
  struct broadcast;
  struct reduce;
};

namespace detail::schedule {

/// The skips p, p/2, p/4, ..., 1, each rounded up: `skip[e]` for e = q ... 0. The path from rank 0 to a rank takes the
/// largest skips that fit; the number e of its last skip is that of the first segment that the rank receives.
struct circulant_walk {
  int q, skip[32]{};

  constexpr explicit circulant_walk(int p) : q{ceil_log2(p)} {
    skip[q] = p;
    for (int e = q; e > 0; --e) skip[e - 1] = (skip[e] + 1) / 2;
  }
  constexpr int first(int r) const {
    int last = q;
    for (int e = q - 1, at = 0; e >= 0; --e)
      if (at + skip[e] <= r) at += skip[e], last = e;
    return last;
  }
  /// The segment that rank r > 0 receives in round k < q: its first one, or one of the q before it (a negative number).
  /// One lap of q rounds later, it is the segment q further on. It is found on a path towards rank r - skip[k] that
  /// takes the largest skips first, omits those of segments received already, and ends before the path of the previous
  /// round did: it is the skip that leads beyond r - skip[k + 1], or else the last one.
  constexpr int told(int r, int k) const {
    const int own = first(r), here = skip[q] + r;  // p ranks further, so that no position is negative
    unsigned used = 1u << own;
    int e_of_round = own;
    for (int j = 0, before = 2 * skip[q]; j <= k; ++j) {
      int at = 0;
      for (int e = q; e >= 0 && at <= here - skip[j + 1]; --e)
        if ((used >> e & 1u) == 0 && at + skip[e] <= here - skip[j] && at + skip[e] < before)
          at += skip[e], e_of_round = e;
      used |= 1u << e_of_round;
      before = at;
    }
    return e_of_round == q ? own : e_of_round - q;
  }
};

}  // namespace detail::schedule

/// From rank 0 to all, in segments: every rank receives every segment once.
struct circulant_pipelined::broadcast {
  static constexpr auto collective = kind::broadcast;
  circulant_pipelined shape{};
  constexpr bool supports(int) const { return shape.segments > 0; }
  constexpr int blocks(int) const { return shape.segments; }
  constexpr int rounds(int p) const { return shape.segments - 1 + ceil_log2(p); }
  constexpr step at(int r, int p, int k) const {
    const detail::schedule::circulant_walk walk{p};
    const int missed = mod(1 - shape.segments, walk.q);  // rounds omitted in the first lap, so that the last is whole
    const int in_lap = (k + missed) % walk.q, done = k - in_lap, d = walk.skip[in_lap];
    const auto segment = [&](int rank) {  // a number behind the last segment means the last one
      const int b = walk.told(rank, in_lap) + done;
      return b < shape.segments ? b : shape.segments - 1;
    };
    const int to = mod(r + d, p);
    transfer t;
    if (const int b = to == 0 ? nobody : segment(to); b >= 0) t.to = to, t.send = {b, 1};
    if (const int b = r == 0 ? nobody : segment(r); b >= 0) t.from = mod(r - d, p), t.receive = {b, 1};
    return t;
  }
};

/// The broadcast in reverse: every rank receives each segment once there, so it sends each segment once here.
struct circulant_pipelined::reduce {
  static constexpr auto collective = kind::reduce;
  circulant_pipelined shape{};
  constexpr bool supports(int) const { return shape.segments > 0; }
  constexpr int blocks(int) const { return shape.segments; }
  constexpr int rounds(int p) const { return broadcast{shape}.rounds(p); }
  constexpr step at(int r, int p, int k) const {
    return detail::schedule::backwards(broadcast{shape}.at(r, p, rounds(p) - 1 - k)[0], arrival::theirs_first);
  }
};

}  // namespace kolo::inline KOLO_ABI

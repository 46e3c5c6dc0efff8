// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The law `relative`: the step of every rank is that of rank 0, moved around the circle.
#pragma once

#include <kolo/schedule/semantics.hpp>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// Whether `b` is `a`, moved by r around a circle of p ranks, and around the circle of blocks if there are p of them.
/// `number_of_sets`: how many sets of blocks the kind has.
constexpr bool is_moved(const peer_range& a, const peer_range& b, int r, int p) {
  if (a.count == 0 || b.count == 0) return a.count == b.count;
  peer_range moved = a;
  moved.first = mod(a.first + r, p);
  return a.cycle == 0 && b == moved;
}
constexpr bool is_moved(const block_range& a, const block_range& b, int r, int p, int blocks, int number_of_sets) {
  block_range moved = a;
  if (blocks == p && a.count > 0) moved.first = block_at({a.first, 1}, r, 0, blocks, number_of_sets);
  return a.cycle == 0 && b == moved;
}
constexpr bool is_moved(const step& a, const step& b, int r, int p, int blocks, int number_of_sets) {
  if (a.size() != b.size()) return false;
  for (int i = 0; i < a.size(); ++i) {
    const transfer &x = a[i], &y = b[i];
    if (!is_moved(x.to, y.to, r, p) || !is_moved(x.from, y.from, r, p)) return false;
    if (x.to.count > 0 && !is_moved(x.send, y.send, r, p, blocks, number_of_sets)) return false;
    if (x.from.count > 0 && (x.then != y.then || !is_moved(x.receive, y.receive, r, p, blocks, number_of_sets)))
      return false;
  }
  return true;
}

}  // namespace kolo::inline KOLO_ABI::detail::schedule

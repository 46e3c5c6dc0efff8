// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pre- and postcondition of each collective, block by block: the table that the verifier and the executor share.
#pragma once

#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// Blocks are numbered in one set, 0 ... blocks - 1, or in two:
///
/// | kind           | before: rank r holds, in `in`     | after: rank r has, in `out`                 | sets  |
/// |----------------|-----------------------------------|---------------------------------------------|-------|
/// | allreduce      | its contribution to every block   | every block, reduced                        | one   |
/// | reduce         | its contribution to every block   | root: every block, reduced                  | one   |
/// | reduce_scatter | its contribution to every block   | the blocks of part r, reduced               | one   |
/// | allgather      | the blocks of part r              | every block                                 | one   |
/// | gather         | the blocks of part r              | root: every block                           | one   |
/// | broadcast      | root: every block                 | every block                                 | one   |
/// | scatter        | root: every block                 | the blocks of part r                        | one   |
/// | alltoall       | set 0: block d is for rank d      | set 1: block s came from rank s             | two   |
/// | scan           | its contribution to every block   | every block, reduced over ranks 0 ... r     | one   |
/// | exclusive_scan | set 0: its contribution           | set 1: reduced over 0 ... r - 1, for r > 0  | two   |
/// | barrier        | one empty block                   | the same, after every rank has entered      | one   |
/// | permutation    | set 0: every block, its own       | set 1: every block of another rank, or own  | two   |
/// | send           | set 0: every block, for its peer  | nothing                                     | two   |
/// | receive        | nothing                           | set 1: every block of its peer              | two   |
/// | exchange       | set 0: every block, its own       | set 1: every block of its peer              | two   |
///
/// After a permutation each rank's blocks are on one rank (`S::source`, if the schedule declares which).
/// Part r of p: blocks r * blocks / p ... (r + 1) * blocks / p - 1, so kinds with parts have a multiple of p blocks.
constexpr int block_sets(kind k) {
  return k == kind::alltoall || k == kind::exclusive_scan || k >= kind::permutation ? 2 : 1;
}

/// Whether the collective has an operator.
constexpr bool reduces(kind k) {
  return k == kind::allreduce || k == kind::reduce || k == kind::reduce_scatter || k == kind::scan ||
         k == kind::exclusive_scan;
}

/// Whether each block belongs to one rank, so that blocks are rotated with the ranks if the root is not 0.
constexpr bool has_parts(kind k) {
  return k == kind::reduce_scatter || k == kind::allgather || k == kind::gather || k == kind::scatter ||
         k == kind::alltoall;
}

/// The elements of all parts together. `count`: of one part, but in a reduce_scatter of all parts.
constexpr std::size_t in_all(kind k, std::size_t count, int size) {
  return has_parts(k) && k != kind::reduce_scatter ? count * std::size_t(size) : count;
}

/// The rank that block b of `blocks` belongs to.
constexpr int owner(int b, int blocks, int size) { return b / (blocks / size); }

/// Whether rank r holds block b before the first round.
constexpr bool held_before(kind k, int r, int b, int blocks, int size, int root = 0) {
  switch (k) {
    case kind::allgather:
    case kind::gather: return b < blocks && owner(b, blocks, size) == r;
    case kind::broadcast:
    case kind::scatter: return b < blocks && r == root;
    default: return b < blocks;
  }
}

/// Whether rank r must hold block b after the last round.
constexpr bool required_after(kind k, int r, int b, int blocks, int size, int root = 0) {
  switch (k) {
    case kind::reduce_scatter:
    case kind::scatter: return b < blocks && owner(b, blocks, size) == r;
    case kind::reduce:
    case kind::gather: return b < blocks && r == root;
    case kind::send: return false;
    case kind::receive:
    case kind::exchange:
    case kind::permutation:
    case kind::alltoall: return b >= blocks && b < 2 * blocks;
    case kind::exclusive_scan: return b >= blocks && b < 2 * blocks && r > 0;
    default: return b < blocks;
  }
}

/// The i-th block of a range for the peer-th peer of a transfer; circular within the set of blocks, or the cycle, in
/// which the range begins.
constexpr int block_at(const block_range& range, int i, int peer, int blocks, int number_of_sets) {
  const int offset = i / range.run * range.stride + i % range.run + peer * range.per_peer;
  if (range.first < 0 || range.first >= blocks * number_of_sets) return range.first + offset;  // scratch
  const int circle = range.cycle > 0 ? range.cycle : blocks;
  const int begin = range.first / circle * circle;
  return begin + mod(range.first - begin + offset, circle);
}

}  // namespace kolo::inline KOLO_ABI::detail::schedule

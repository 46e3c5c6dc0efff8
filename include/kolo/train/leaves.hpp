// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splits a batch into a fixed number of micro-batches, the leaves of one tree: which rank computes which, and which two
// partial results are combined.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/core/rank.hpp>
#include <kolo/core/text.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// The micro-batches of every step, `leaves{8}`, numbered from 0: a power of two, independent of the number of ranks,
/// and not less than that. One balanced tree combines their results, adjacent ones first.
struct leaves {
  int number;  ///< of leaves in a step, over all ranks

  /// The leaves that this rank computes, which are adjacent.
  constexpr extent of(int rank, int ranks) const { return block(std::size_t(number), ranks, rank); }
};

namespace detail::train {

/// Returns `all`. Errors: `invalid_argument` if the number is not a power of two, or less than the number of ranks.
inline const leaves& checked(const leaves& all, int ranks) {
  if (all.number < ranks || (all.number & (all.number - 1)) != 0)
    throw error{errc::invalid_argument, "leaves are a power of two, and not less than the number of ranks: " +
                                            std::to_string(all.number) + " leaves, " + core::ranks_text(ranks)};
  return all;
}

/// The combined result of leaves first ... first + count - 1, a whole subtree, and the index where it is kept.
struct subtree {
  std::size_t first = 0, count = 1, at = 0;
};

/// Adds the next subtree to the known ones, like 1 to a binary number: while the last two make a larger subtree,
/// merge(left, right) combines the results kept at these indices, at the first of them.
template <class F>
constexpr void join(std::vector<subtree>& known, subtree next, F merge) {
  while (!known.empty() && known.back().count == next.count && next.first % (2 * next.count) != 0) {
    merge(known.back().at, next.at);
    next = {known.back().first, 2 * next.count, known.back().at};
    known.pop_back();
  }
  known.push_back(next);
}

/// The subtrees that a rank's leaves make in order, kept at 0, 1, ..., and the most that are kept at a time: at most
/// log2(L) of L leaves on one rank, and fewer than twice as many on one of several.
struct subtrees_of {
  explicit subtrees_of(const extent& own) {
    for (std::size_t leaf = own.first; leaf < own.first + own.count; ++leaf) {
      join(all, {leaf, 1, all.size()}, [](std::size_t, std::size_t) {});
      most = all.size() > most ? all.size() : most;
    }
  }
  std::vector<subtree> all{};
  std::size_t most = 0;
};

}  // namespace detail::train
}  // namespace kolo::inline KOLO_ABI

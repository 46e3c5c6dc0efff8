// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks share a node: ranks are numbered node by node.
#pragma once

#include <kolo/core/rank.hpp>

#include <cstdint>

namespace kolo::inline KOLO_ABI {

/// `{.ranks_per_node = 8}`: 8 ranks on each node; the last may have fewer. `{.sizes = {4, 4, 3}}`: these numbers of
/// ranks. `{}`: about as many nodes as a node has ranks.
struct topology {
  static constexpr int most_nodes = 64;  ///< if `sizes` are given

  int ranks_per_node = 0;
  std::uint16_t sizes[most_nodes]{};  ///< ranks of each node, up to the first 0

  /// Whether p ranks fit these nodes; given `sizes`, they must fill them.
  constexpr bool holds(int p) const {
    if (!is_given()) return ranks_per_node >= 0;
    int all = 0;
    for (int n = 0; n < nodes(p); ++n) all += sizes[n];
    return all == p;
  }
  /// The number of nodes. Here and in all functions below, p is the number of ranks.
  constexpr int nodes(int p) const {
    if (ranks_per_node > 0) return (p - 1) / ranks_per_node + 1;
    int n = 0;
    if (is_given()) {
      while (n < most_nodes && sizes[n] > 0) ++n;
    } else {
      while ((n + 1) * (n + 1) <= p) ++n;
    }
    return n;
  }
  /// The number of ranks of a node.
  constexpr int size(int node, int p) const {
    if (is_given()) return sizes[node];
    if (ranks_per_node > 0)
      return ranks_per_node < p - node * ranks_per_node ? ranks_per_node : p - node * ranks_per_node;
    return int(block(std::size_t(p), nodes(p), node).count);
  }
  /// The first rank of a node; p if there is no such node.
  constexpr int first(int node, int p) const {
    if (!is_given() && ranks_per_node > 0) return node * ranks_per_node < p ? node * ranks_per_node : p;
    if (!is_given()) return int(block(std::size_t(p), nodes(p), node).first);
    int before = 0;
    for (int n = 0; n < node; ++n) before += sizes[n];
    return before;
  }
  constexpr int node_of(int rank, int p) const {
    if (!is_given()) return ranks_per_node > 0 ? rank / ranks_per_node : block_of(p, nodes(p), rank);
    int node = 0;
    for (int end = sizes[0]; end <= rank; end += sizes[node]) ++node;
    return node;
  }
  constexpr int fewest(int p) const {
    if (!is_given()) return size(nodes(p) - 1, p);
    int ranks = p;
    for (int n = 0; n < nodes(p); ++n) ranks = sizes[n] < ranks ? sizes[n] : ranks;
    return ranks;
  }
  constexpr int most(int p) const {
    if (!is_given()) return size(0, p);
    int ranks = 0;
    for (int n = 0; n < nodes(p); ++n) ranks = sizes[n] > ranks ? sizes[n] : ranks;
    return ranks;
  }

  /// Which of the `parts` blocks of n elements holds element i. (See `block`.)
  static constexpr int block_of(int n, int parts, int i) {
    const int shorter = n / parts, longer = n % parts, in_longer = longer * (shorter + 1);
    return i < in_longer ? i / (shorter + 1) : longer + (i - in_longer) / shorter;
  }

 private:
  constexpr bool is_given() const { return ranks_per_node == 0 && sizes[0] > 0; }
};

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks share a node: ranks are numbered node by node.
#pragma once

#include <kolo/core/rank.hpp>

#include <cstdint>

namespace kolo::inline v0 {

/// `{.ranks_per_node = 8}`: 8 on each node, the last may have fewer. `{.sizes = {4, 4, 3}}`: as many as that. `{}`: about as many
/// nodes as a node has ranks.
struct topology {
  static constexpr int most_nodes = 64;  ///< of those with given sizes

  int ranks_per_node = 0;
  std::uint16_t sizes[most_nodes]{};  ///< up to the first 0

  /// Are p ranks on these nodes?
  constexpr bool holds(int p) const {
    int all = 0;
    for (int n = 0; n < nodes(p); ++n) all += size(n, p);
    return all == p && ranks_per_node >= 0;
  }
  /// Of p ranks; so are all functions below.
  constexpr int nodes(int p) const {
    if (ranks_per_node > 0) return (p + ranks_per_node - 1) / ranks_per_node;
    int n = 0;
    if (sizes[0] > 0) {
      while (n < most_nodes && sizes[n] > 0) ++n;
    } else {
      while ((n + 1) * (n + 1) <= p) ++n;
    }
    return n;
  }
  /// Ranks of a node.
  constexpr int size(int node, int p) const {
    if (ranks_per_node > 0) return ranks_per_node < p - node * ranks_per_node ? ranks_per_node : p - node * ranks_per_node;
    if (sizes[0] > 0) return sizes[node];
    return static_cast<int>(block(static_cast<std::size_t>(p), nodes(p), node).count);
  }
  /// The first rank of a node.
  constexpr int first(int node, int p) const {
    if (ranks_per_node > 0) return node * ranks_per_node;
    int before = 0;
    for (int n = 0; n < node; ++n) before += size(n, p);
    return before;
  }
  constexpr int node_of(int rank, int p) const {
    int node = 0;
    for (int end = size(0, p); end <= rank; end += size(node, p)) ++node;
    return node;
  }
  constexpr int fewest(int p) const {
    int ranks = p;
    for (int n = 0; n < nodes(p); ++n) ranks = size(n, p) < ranks ? size(n, p) : ranks;
    return ranks;
  }
  constexpr int most(int p) const {
    int ranks = 0;
    for (int n = 0; n < nodes(p); ++n) ranks = size(n, p) > ranks ? size(n, p) : ranks;
    return ranks;
  }
};

}  // namespace kolo::inline v0

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks share a node.
#pragma once

#include <kolo/transport/transport.hpp>

#include <map>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::transport {

/// The node of each rank; a node is numbered by its lowest rank. A value, equal on all ranks.
class node_map {
 public:
  node_map() = default;
  /// Ranks with equal numbers share a node; the numbers themselves do not matter.
  explicit node_map(const std::vector<int>& numbers) {
    std::map<int, int> lowest;
    for (const int n : numbers) nodes_.push_back(lowest.try_emplace(n, size()).first->second);
  }
  /// `ranks_per_node` at a time; the last node may have fewer.
  static node_map by_size(int ranks, int ranks_per_node) {
    node_map all;
    for (int r = 0; r < ranks; ++r) all.nodes_.push_back(r - r % ranks_per_node);
    return all;
  }

  int size() const { return int(nodes_.size()); }
  int of(int rank) const { return nodes_[std::size_t(rank)]; }
  const std::vector<int>& nodes() const { return nodes_; }

  /// Nodes are numbered in the order of their lowest ranks, the ranks of a node in the order of theirs.
  placement placement_of(int rank) const {
    placement p{0, 0, 0, 0};
    const int mine = of(rank);
    for (int r = 0; r < size(); ++r) {
      p.local_size += of(r) == mine ? 1 : 0;
      p.local_rank += of(r) == mine && r < rank ? 1 : 0;
      p.node_count += of(r) == r ? 1 : 0;
      p.node_rank += of(r) == r && r < mine ? 1 : 0;
    }
    return p;
  }

  /// For some of the ranks, in this order.
  node_map among(const std::vector<int>& members) const {
    std::vector<int> numbers;
    for (const int member : members) numbers.push_back(of(member));
    return node_map{numbers};
  }

 private:
  std::vector<int> nodes_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::transport

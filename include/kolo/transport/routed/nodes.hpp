// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks share a node, and how they are numbered there.
#pragma once

#include <kolo/transport/small_exchange.hpp>

#include <string>
#include <vector>

namespace kolo::inline v0::detail {

/// Of all ranks, as one of them sees it. Neighbours are numbered in the order of their ranks.
class node_map {
 public:
  /// Collective over `all`: those who say the same node share it.
  template <Transport T>
  node_map(T& all, int node) : rank_{all.rank()}, nodes_(static_cast<std::size_t>(all.size())), near_of_(nodes_.size(), -1) {
    nodes_[static_cast<std::size_t>(rank_)] = node;
    share(all, nodes_.data(), sizeof(int));
    for (int r = 0; r < all.size(); ++r) {
      if (nodes_[static_cast<std::size_t>(r)] != node) continue;
      near_of_[static_cast<std::size_t>(r)] = static_cast<int>(neighbours_.size());
      neighbours_.push_back(r);
    }
    find_place();
  }

  const placement& place() const { return place_; }
  const std::vector<int>& all() const { return nodes_; }
  int own() const { return nodes_[static_cast<std::size_t>(rank_)]; }
  int near_of(int rank) const { return near_of_[static_cast<std::size_t>(rank)]; }  ///< its number on this node; -1: it is on another
  int neighbour(int number) const { return neighbours_[static_cast<std::size_t>(number)]; }
  bool is_empty() const { return nodes_.empty(); }  ///< it has been moved from

  /// What a wire between neighbours must say of itself.
  void expect(int number, int size) const {
    if (number == place_.local_rank && size == place_.local_size) return;
    throw error{errc::invalid_argument, "the near wire has this rank as " + std::to_string(number) + " of " + std::to_string(size) + ", and on its node it is " +
                                            std::to_string(place_.local_rank) + " of " + std::to_string(place_.local_size)};
  }

 private:
  void find_place() {
    std::vector<int> seen;  // nodes, in the order of their lowest ranks
    for (const int n : nodes_)
      if (std::find(seen.begin(), seen.end(), n) == seen.end()) seen.push_back(n);
    place_ = {near_of(rank_), static_cast<int>(neighbours_.size()), static_cast<int>(std::find(seen.begin(), seen.end(), own()) - seen.begin()),
              static_cast<int>(seen.size())};
  }

  int rank_;
  std::vector<int> nodes_, near_of_, neighbours_{};
  placement place_{};
};

}  // namespace kolo::inline v0::detail

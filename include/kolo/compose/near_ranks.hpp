// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ranks on the node of one rank, and their numbers there.
#pragma once

#include <kolo/transport/node_map.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::compose {

/// The ranks on the node of this rank, numbered in the order of their ranks.
class near_ranks {
 public:
  /// Collective over `all`, for `operation`: ranks that pass the same `node` share it.
  near_ranks(Transport auto& all, int node, const char* operation) {
    *this = near_ranks{transport::node_map{transport::small_allgather(all, node, operation)}, all.rank()};
  }
  near_ranks(transport::node_map nodes, int rank)
      : nodes_{std::move(nodes)}, own_{nodes_.of(rank)}, place_{nodes_.placement_of(rank)} {
    for (int r = 0; r < nodes_.size(); ++r) {
      near_of_.push_back(nodes_.of(r) == own_ ? int(ranks_.size()) : -1);
      if (nodes_.of(r) == own_) ranks_.push_back(r);
    }
  }

  const placement& place() const { return place_; }
  const std::vector<int>& nodes() const { return nodes_.nodes(); }
  int own() const { return own_; }                                     ///< number of the node of this rank
  int near_of(int rank) const { return near_of_[std::size_t(rank)]; }  ///< its number on this node; -1: another node
  int rank_of(int number) const { return ranks_[std::size_t(number)]; }
  bool is_empty() const { return near_of_.empty(); }  ///< moved from

  /// Throws invalid_argument unless the near transport has this rank's number on the node, and the node's size.
  void expect(int number, int size) const {
    if (number == place_.local_rank && size == place_.local_size) return;
    core::throw_error(errc::invalid_argument,
                      {"the near transport has this rank as ", number, " of ", size, ", and on its node it is ",
                       place_.local_rank, " of ", place_.local_size});
  }

 private:
  transport::node_map nodes_{};
  int own_ = 0;
  placement place_{};
  std::vector<int> near_of_{}, ranks_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::compose

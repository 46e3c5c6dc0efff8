// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Combines a bucket of gradients over all micro-batches of a step by one tree, on any number of ranks.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/alltoall.hpp>
#include <kolo/reduce/kernel.hpp>
#include <kolo/train/leaves.hpp>
#include <kolo/train/parameter.hpp>
#include <kolo/view/bucket.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::train {

/// Each rank combines its leaves into subtrees, and sends block r of each to rank r. Each rank combines the blocks that
/// it receives in the order of the leaves, and finishes them once. So all results follow the tree.
template <class T>
class leaf_sums {
 public:
  /// `k`: the kernel of the operator, which must outlive this object.
  leaf_sums(bucket<T> gradients, const leaves& all, int rank, int ranks, const kernel& k)
      : gradients_{std::move(gradients)}, kernel_{k}, own_{all.of(rank, ranks)}, number_{all.number} {
    const subtrees_of mine{own_};
    n_ = gradients_.size(), m_ = block(n_, ranks, rank).count;
    rows_.resize(mine.most * n_);
    std::vector<std::span<T>> parts;
    std::vector<subtree> known;
    for (int r = 0; r < ranks; ++r) {
      const extent there = block(n_, ranks, r);
      for (std::size_t i = 0; i < mine.all.size(); ++i) parts.emplace_back(row(i) + there.first, there.count);
      send_counts_.push_back(mine.all.size() * there.count);
      blocks_.push_back(there.count);
      const subtrees_of theirs{all.of(r, ranks)};
      for (subtree s : theirs.all) {
        s.at = subtrees_++;
        join(known, s, [this](std::size_t left, std::size_t right) { merges_.emplace_back(left, right); });
      }
      receive_counts_.push_back(theirs.all.size() * m_);
    }
    received_.resize(subtrees_ * m_);
    sent_.emplace(parts);
  }
  leaf_sums(const leaf_sums&) = delete;  // its views refer to its members
  leaf_sums(leaf_sums&&) = default;

  /// Combines this rank's next leaf, which the gradients now hold.
  void take() {
    const std::size_t fresh = known_.size();
    join(known_, {own_.first + taken_++, 1, fresh}, [&](std::size_t left, std::size_t right) {
      if (right != fresh) return combine(row(left), row(right), n_);
      each_run([&](std::span<T> run, std::size_t i) { combine(row(left) + i, run.data(), run.size()); });
    });
    if (known_.back().at == fresh)
      each_run([&](std::span<T> run, std::size_t i) { std::copy(run.begin(), run.end(), row(fresh) + i); });
  }

  /// Discards the leaves taken so far.
  void drop() { known_.clear(), taken_ = 0; }

  /// Starts the exchange, after all leaves of this rank have been taken.
  template <class Comm>
  auto start(Comm& comm) {
    return start_alltoall(comm, *sent_, received_, send_counts_, receive_counts_);
  }

  /// After the exchange: combines and returns this rank's block, which the next `start` overwrites.
  std::span<T> combine_block() {
    constexpr std::size_t some = 1024;  // elements of all blocks, which stay in the cache
    for (std::size_t i = 0; i < m_; i += some) {
      const std::size_t count = std::min(some, m_ - i);
      for (const auto& [left, right] : merges_) combine(block_of(left) + i, block_of(right) + i, count);
      if (kernel_.finishes) finish(block_of(0) + i, count);
    }
    drop();
    return {received_.data(), m_};
  }

  /// Starts to gather the blocks of all ranks into the gradients.
  auto start_gather(auto& comm) {
    return start_allgather(comm, std::span<T>{received_.data(), m_}, gradients_, blocks_);
  }

 private:
  T* row(std::size_t i) { return rows_.data() + i * n_; }
  T* block_of(std::size_t index) { return received_.data() + index * m_; }

  void each_run(auto f) {
    std::size_t i = 0;
    for_runs(gradients_, [&](std::span<T> run) { f(run, i), i += run.size(); });
  }
  void combine(T* left, const T* right, std::size_t count) {
    const source both[] = {{reinterpret_cast<const std::byte*>(left), false},
                           {reinterpret_cast<const std::byte*>(right), false}};
    kernel_.combine(kernel_.op, reinterpret_cast<std::byte*>(left), both, 2, count, 0);
  }
  void finish(T* x, std::size_t count) {
    const source one{reinterpret_cast<const std::byte*>(x), false};
    kernel_.combine(kernel_.op, reinterpret_cast<std::byte*>(x), &one, 1, count, number_);
  }

  bucket<T> gradients_;
  kernel kernel_;
  extent own_;
  int number_;
  std::size_t n_ = 0, m_ = 0, taken_ = 0, subtrees_ = 0;  ///< elements; in this rank's block; leaves; of all ranks
  std::vector<T> rows_{}, received_{};                    ///< (kept subtrees, n), (subtrees, m)
  std::vector<subtree> known_{};
  std::vector<std::pair<std::size_t, std::size_t>> merges_{};
  std::vector<std::size_t> send_counts_{}, receive_counts_{}, blocks_{};
  std::optional<bucket<T>> sent_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::train

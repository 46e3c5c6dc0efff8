// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Combines a bucket of gradients over all micro-batches of a step by one tree, on any number of ranks.
#pragma once

#include <kolo/execute/communicator.hpp>
#include <kolo/execute/request.hpp>
#include <kolo/reduce/kernel.hpp>
#include <kolo/train/leaves.hpp>
#include <kolo/view/bucket.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::train {

/// The same elements as bytes.
template <class E>
bucket<std::byte> bytes_of(const bucket<E>& elements) {
  std::vector<std::span<std::byte>> runs;
  view::for_runs(elements, [&](std::span<E> run) { runs.push_back(std::as_writable_bytes(run)); });
  return bucket<std::byte>{runs};
}

/// Each rank combines its leaves into subtrees, and sends block r of each to rank r. Each rank combines the blocks that
/// it receives in the order of the leaves, and finishes them once. So all results follow the tree.
template <class T>
class leaf_sums {
 public:
  /// `k`: the kernel of an operator that outlives this object. A communicator of these ranks starts the
  /// exchanges.
  leaf_sums(bucket<std::byte> gradients, const leaves& all, const communicator<T>& comm, const kernel& k);
  leaf_sums(const leaf_sums&) = delete;  // its views refer to its members
  leaf_sums(leaf_sums&&) = default;

  /// Combines this rank's next leaf, which the gradients now hold.
  void take();

  /// Discards the leaves taken so far.
  void drop() { known_.clear(), taken_ = 0; }

  /// Starts the exchange, after all leaves of this rank have been taken.
  request<T> start(const communicator<T>& comm);

  /// After the exchange: combines and returns this rank's block, which the next `start` overwrites.
  std::span<std::byte> combine_block();

  /// Starts to gather the blocks of all ranks into the gradients.
  request<T> start_gather(const communicator<T>& comm);

 private:
  std::byte* row(std::size_t i) { return rows_.data() + i * n_; }
  std::byte* block_of(std::size_t index) { return received_.data() + index * m_; }
  void each_run(auto f);
  void combine(std::byte* left, const std::byte* right, std::size_t bytes);

  bucket<std::byte> gradients_;
  kernel kernel_;
  extent own_;
  int number_;
  std::size_t n_ = 0, m_ = 0, taken_ = 0, subtrees_ = 0;  ///< bytes; in this rank's block; leaves; of all ranks
  std::vector<std::byte> rows_{}, received_{};            ///< (kept subtrees, n), (subtrees, m)
  std::vector<subtree> known_{};
  std::vector<std::pair<std::size_t, std::size_t>> merges_{};
  std::vector<std::size_t> send_counts_{}, receive_counts_{}, blocks_{};  ///< bytes
  std::optional<bucket<std::byte>> sent_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::train

#ifndef KOLO_DECLARES
#include <kolo/train/impl/leaf_sums.hpp>
#endif

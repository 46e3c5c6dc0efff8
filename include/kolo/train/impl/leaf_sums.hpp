// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The members of leaf_sums (train/leaf_sums.hpp).
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/alltoall.hpp>
#include <kolo/train/leaf_sums.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::train {

template <class T>
leaf_sums<T>::leaf_sums(bucket<std::byte> gradients, const leaves& all, const communicator<T>& comm, const kernel& k)
    : gradients_{std::move(gradients)}, kernel_{k}, own_{all.of(comm.rank(), comm.size())}, number_{all.number} {
  const subtrees_of mine{own_};
  const std::size_t elements = gradients_.size() / k.element_bytes;
  const int ranks = comm.size();
  n_ = gradients_.size(), m_ = block(elements, ranks, comm.rank()).count * k.element_bytes;
  rows_.resize(mine.most * n_);
  std::vector<std::span<std::byte>> parts;
  std::vector<subtree> known;
  for (int r = 0; r < ranks; ++r) {
    const extent there = block(elements, ranks, r);
    blocks_.push_back(there.count * k.element_bytes);
    for (std::size_t i = 0; i < mine.all.size(); ++i)
      parts.emplace_back(row(i) + there.first * k.element_bytes, blocks_.back());
    send_counts_.push_back(mine.all.size() * blocks_.back());
    const subtrees_of theirs{all.of(r, ranks)};
    for (subtree s : theirs.all) {
      s.at = subtrees_++;
      train::join(known, s, [this](std::size_t left, std::size_t right) { merges_.emplace_back(left, right); });
    }
    receive_counts_.push_back(theirs.all.size() * m_);
  }
  received_.resize(subtrees_ * m_);
  sent_.emplace(parts);
}

template <class T>
void leaf_sums<T>::take() {
  const std::size_t fresh = known_.size();
  train::join(known_, {own_.first + taken_++, 1, fresh}, [&](std::size_t left, std::size_t right) {
    if (right != fresh) return combine(row(left), row(right), n_);
    each_run([&](std::span<std::byte> run, std::size_t i) { combine(row(left) + i, run.data(), run.size()); });
  });
  if (known_.back().at == fresh)
    each_run([&](std::span<std::byte> run, std::size_t i) { std::copy(run.begin(), run.end(), row(fresh) + i); });
}

template <class T>
request<T> leaf_sums<T>::start(const communicator<T>& comm) {
  return start_alltoall(comm, *sent_, received_, send_counts_, receive_counts_);
}

template <class T>
std::span<std::byte> leaf_sums<T>::combine_block() {
  const std::size_t some = 1024 * kernel_.element_bytes;  // of all blocks, which stay in the cache
  for (std::size_t i = 0; i < m_; i += some) {
    const std::size_t bytes = std::min(some, m_ - i);
    for (const auto& [left, right] : merges_) combine(block_of(left) + i, block_of(right) + i, bytes);
    if (kernel_.finishes) {
      const source one{block_of(0) + i, false};
      kernel_.combine(kernel_.op, block_of(0) + i, &one, 1, bytes / kernel_.element_bytes, number_);
    }
  }
  drop();
  return {received_.data(), m_};
}

template <class T>
request<T> leaf_sums<T>::start_gather(const communicator<T>& comm) {
  return start_allgather(comm, std::span{received_.data(), m_}, gradients_, blocks_);
}

template <class T>
void leaf_sums<T>::each_run(auto f) {
  std::size_t i = 0;
  view::for_runs(gradients_, [&](std::span<std::byte> run) { f(run, i), i += run.size(); });
}
template <class T>
void leaf_sums<T>::combine(std::byte* left, const std::byte* right, std::size_t bytes) {
  const source both[] = {{left, false}, {right, false}};
  kernel_.combine(kernel_.op, left, both, 2, bytes / kernel_.element_bytes, 0);
}

}  // namespace kolo::inline KOLO_ABI::detail::train

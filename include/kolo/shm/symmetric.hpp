// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that the peers of a rank address directly.
#pragma once

#include <kolo/execute/communicator.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::shm {
/// Collective: zeroed memory that all ranks address, a part of `bytes` for each of them (impl/memory.hpp).
template <class T>
std::vector<std::shared_ptr<std::byte>> symmetric_parts(execute::engine<T>& e, std::size_t bytes);
}  // namespace detail::shm

/// An array of equal length on every rank. A view like any other that also knows the addresses of the peers' arrays.
template <class T>
class symmetric_array {
 public:
  symmetric_array(const std::vector<std::shared_ptr<std::byte>>& parts, int rank, std::size_t n) : size_{n} {
    for (const auto& part : parts) parts_.push_back(std::shared_ptr<T>(part, reinterpret_cast<T*>(part.get())));
    mine_ = parts_[std::size_t(rank)].get();
  }

  T* data() const { return mine_; }           ///< of this rank's own array
  std::size_t size() const { return size_; }  ///< elements of one rank's array
  T* begin() const { return mine_; }          ///< of this rank's own array
  T* end() const { return mine_ + size_; }    ///< of this rank's own array
  T& operator[](std::size_t i) const { return mine_[i]; }

  /// Rank r's array. Rank r may write it at any time: synchronise with it, for instance by a barrier, before you read.
  std::span<T> of(int rank) const { return {parts_[std::size_t(rank)].get(), size_}; }

 private:
  std::vector<std::shared_ptr<T>> parts_;
  T* mine_ = nullptr;
  std::size_t size_ = 0;
};

/// Collective: n zeroed elements on every rank, n equal on all ranks, in memory that the peers address directly.
/// Errors  invalid_argument: the lengths differ; out_of_resources.
template <class T, Communicator C>
  requires std::is_trivially_copyable_v<T> symmetric_array<T> symmetric(C& comm, std::size_t n) {
    constexpr std::size_t most = ~std::size_t{0};  // bytes, more than any machine has
    return {detail::shm::symmetric_parts(*comm.engine(), n > most / sizeof(T) ? most : n * sizeof(T)), comm.rank(), n};
  }

}  // namespace kolo::inline KOLO_ABI

#ifndef KOLO_DECLARES
#include <kolo/impl/memory.hpp>
#endif

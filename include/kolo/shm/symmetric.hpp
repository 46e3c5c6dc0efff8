// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that the peers of a rank address directly.
#pragma once

#include <kolo/execute/communicator.hpp>

#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// The transport's ranks address common memory.
///
/// | call              | law |
/// |-------------------|-----|
/// | `symmetric(n)`    | collective, n equal on all ranks: zeroed memory with a part of at least n bytes, page-aligned, for every rank; it goes when the last rank has dropped it |
template <class T>
concept SharesMemory = Transport<T> && requires(T t, std::size_t bytes) {
  { t.symmetric(bytes).part(0) } -> std::same_as<std::byte*>;
};

/// An array of equal length on every rank. A view like any other; besides, it knows where the peers' arrays are.
template <class T>
class symmetric_array {
 public:
  template <class Parts>
  symmetric_array(const Parts& parts, int rank, int ranks, std::size_t n) : size_{n} {
    for (int r = 0; r < ranks; ++r)
      parts_.push_back(std::shared_ptr<T>(parts.owner, reinterpret_cast<T*>(parts.part(r))));
    mine_ = parts_[static_cast<std::size_t>(rank)].get();
  }

  T* data() const { return mine_; }
  std::size_t size() const { return size_; }
  T* begin() const { return mine_; }
  T* end() const { return mine_ + size_; }
  T& operator[](std::size_t i) const { return mine_[i]; }

  /// Where rank r's array is. What it holds is r's business: agree with it, by a barrier for instance, before you look.
  std::span<T> of(int rank) const { return {parts_[static_cast<std::size_t>(rank)].get(), size_}; }

 private:
  std::vector<std::shared_ptr<T>> parts_;
  T* mine_ = nullptr;
  std::size_t size_ = 0;
};

/// Collective: n zeroed elements on every rank, n equal on all ranks, in memory that the peers address directly.
/// Errors  invalid_argument: the lengths differ; out_of_resources.
template <class T, Communicator C>
  requires std::is_trivially_copyable_v<T> && SharesMemory<typename C::transport_type> symmetric_array<T> symmetric(
      C& comm, std::size_t n) {
    comm.engine()->finish_all();
    return {comm.transport().symmetric(n * sizeof(T)), comm.rank(), comm.size(), n};
  }

}  // namespace kolo::inline KOLO_ABI

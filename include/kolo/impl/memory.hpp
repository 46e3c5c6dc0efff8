// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions that allocate memory which peers address (shm/heap.hpp, shm/symmetric.hpp).
#pragma once

#include <kolo/execute/engine.hpp>
#include <kolo/shm/heap.hpp>
#include <kolo/shm/symmetric.hpp>
#include <kolo/transport/abilities.hpp>

#include <concepts>
#include <memory>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// The transport's ranks address common memory.
///
/// * `symmetric(n)`: collective, n equal on all ranks: zeroed memory with a part of at least n bytes, page-aligned, for
///   every rank; freed when the last rank has dropped it
template <class T>
concept SharesMemory = Transport<T> && requires(T t, std::size_t bytes) {
  { t.symmetric(bytes).part(0) } -> std::same_as<std::byte*>;
};

namespace detail::shm {

template <class T>
resource_pointer heap_under(execute::engine<T>& e) {
  if constexpr (HasHeap<T>) return e.transport.heap();
  else return ordinary_memory();
}

template <class T>
std::vector<std::shared_ptr<std::byte>> symmetric_parts(execute::engine<T>& e, std::size_t bytes) {
  static_assert(SharesMemory<T>,
                "kolo: the ranks of this transport do not share memory: it has no member symmetric(bytes)");
  const auto here = e.begin_alone("symmetric");
  const auto all = e.transport.symmetric(bytes);
  std::vector<std::shared_ptr<std::byte>> parts;
  for (int r = 0; r < e.transport.size(); ++r) parts.emplace_back(all.owner, all.part(r));
  return parts;
}

}  // namespace detail::shm
}  // namespace kolo::inline KOLO_ABI

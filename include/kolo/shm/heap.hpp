// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that peers address directly, for containers: each rank allocates it alone, at any time and in any size.
#pragma once

#include <kolo/execute/communicator.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>

namespace kolo::inline KOLO_ABI {
namespace detail::shm {

using resource_pointer = std::shared_ptr<std::pmr::memory_resource>;

inline resource_pointer ordinary_memory() { return {std::shared_ptr<void>{}, std::pmr::new_delete_resource()}; }
/// Defined in impl/memory.hpp.
template <class T>
resource_pointer heap_under(execute::engine<T>& e);

}  // namespace detail::shm

namespace shm {

/// Memory that the peers of this rank address directly, so that collectives read and write large tensors in place. Not
/// collective. A rank has one heap, which communicators split off share; it lives as long as a communicator, an
/// allocator or a pointer like this one. Any thread may use it. Blocks are aligned to at least 64 bytes. A block of
/// more than 64 KiB takes memory as it is touched and returns it when it is freed; smaller ones are kept for reuse. If
/// there is no such memory (`ulimit -f`, a small /dev/shm), or all memory is addressed directly anyway, as among
/// threads, it is ordinary memory. Before: no thread of this process allocates here while another one forks. Errors, of
/// its `allocate`  std::bad_alloc.
std::shared_ptr<std::pmr::memory_resource> heap(const Communicator auto& comm) {
  return detail::shm::heap_under(*comm.engine());
}

/// `std::vector<float, kolo::shm::allocator<float>> gradient(n, kolo::shm::allocator<float>{comm})` lies in the heap of
/// its rank. Default-constructed, it allocates ordinary memory: collectives accept a tensor there too, but copy it
/// through the transport's slots. Copy assignment keeps a container's allocator; move assignment and swap take over the
/// other one's. Errors, of `allocate`  those of the heap; std::bad_array_new_length: n elements have more bytes than
/// can be counted.
template <class T>
class allocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  allocator() noexcept : heap_{detail::shm::ordinary_memory()} {}
  template <Communicator C>
  explicit allocator(const C& comm) : heap_{shm::heap(comm)} {}
  template <class U>
  allocator(const allocator<U>& other) noexcept : heap_{other.resource()} {}
  allocator(const allocator&) noexcept = default;  // also moves: the source stays valid
  allocator& operator=(const allocator&) noexcept = default;

  /// n elements, aligned to at least 64 bytes.
  T* allocate(std::size_t n) {
    if (n > ~std::size_t{0} / sizeof(T)) throw std::bad_array_new_length{};
    return static_cast<T*>(heap_->allocate(n * sizeof(T), alignment));
  }
  /// Frees what `allocate(n)` returned; from any thread, also after the communicator is gone.
  void deallocate(T* p, std::size_t n) noexcept { heap_->deallocate(p, n * sizeof(T), alignment); }

  /// The heap that it allocates from.
  const std::shared_ptr<std::pmr::memory_resource>& resource() const noexcept { return heap_; }

  template <class U>
  friend bool operator==(const allocator& a, const allocator<U>& b) noexcept {
    return *a.resource() == *b.resource();
  }

 private:
  static constexpr std::size_t alignment = std::max<std::size_t>(alignof(T), 64);
  std::shared_ptr<std::pmr::memory_resource> heap_;
};

}  // namespace shm
}  // namespace kolo::inline KOLO_ABI

#ifndef KOLO_DECLARES
#include <kolo/impl/memory.hpp>
#endif

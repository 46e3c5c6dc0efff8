// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that peers address directly, as one rank allocates it: pages, and blocks of them.
#pragma once

#include <kolo/core/own_process.hpp>
#include <kolo/shm/heap.hpp>
#include <kolo/shm/mapping.hpp>
#include <kolo/shm/new_region.hpp>
#include <kolo/shm/shared_mapping.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::shm {

/// Whole pages out of a few long regions, since each region is a mapping of its own in every peer. A page takes memory
/// from the first touch until it is freed; it is never used again, so a peer that still reads it reads nothing else.
/// Not thread-safe. `Used`: only programs with a heap instantiate it.
template <class Used = void>
class shared_pages : public std::pmr::memory_resource {
 public:
  explicit shared_pages(shared_mapping memory) : memory_{std::move(memory)} {}

  /// False in a process that the owner has forked: it may use the pages, but does not free them.
  bool is_owner() const { return owner_.is_this(); }
  bool holds(const void* p) const {
    return std::any_of(runs_.begin(), runs_.end(), [p](const heap_run& s) { return s.holds(p); });
  }

 private:
  static constexpr std::size_t shortest = 64 << 20,
                               longest = std::size_t{64} << 30;  // of address space, which costs nothing
  static constexpr std::size_t shortest_eager = 1 << 20;         // if it takes memory
  struct heap_run {
    std::uint64_t region;
    std::size_t length;
    std::shared_ptr<std::byte> memory;
    std::size_t carved, live;  ///< bytes handed out, and those of them not yet freed
    bool holds(const void* p) const { return memory.get() <= p && p < memory.get() + length; }
  };

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    bytes = whole_pages(bytes);
    void* p = partition(bytes, alignment);
    if (!p) add_stretch(bytes + alignment);
    return p ? p : partition(bytes, alignment);
  }

  void* partition(std::size_t bytes, std::size_t alignment) {
    if (runs_.empty()) return nullptr;
    heap_run& s = runs_.back();
    void* p = s.memory.get() + s.carved;
    auto left = s.length - s.carved;
    if (!std::align(alignment, bytes, p, left)) return nullptr;
    s.carved = s.length - left + bytes;
    s.live += bytes;
    return p;
  }

  /// Each as long as all others together, so there are few; if the system does not have that much, only the length
  /// needed.
  void add_stretch(std::size_t least) {
    std::size_t others = memory_.is_eager() ? shortest_eager : shortest;
    for (const heap_run& s : runs_) others += s.length;
    const auto length = whole_pages(std::max(least, std::min(others, longest)));
    try {
      runs_.push_back(map_run(length));
    } catch (const error&) {
      if (length == whole_pages(least)) throw;
      runs_.push_back(map_run(least));
    }
  }
  heap_run map_run(std::size_t length) {
    new_region made{memory_, length, ownership::alone};
    return {made.number, whole_pages(length), std::move(made.base), 0, 0};
  }

  void do_deallocate(void* p, std::size_t bytes, std::size_t) override {
    if (!is_owner()) return;
    bytes = whole_pages(bytes);
    const auto s = std::find_if(runs_.begin(), runs_.end(), [p](const heap_run& each) { return each.holds(p); });
    memory_.forget(static_cast<std::byte*>(p), bytes);
    memory_.discard(s->region + std::uint64_t(static_cast<std::byte*>(p) - s->memory.get()), bytes);
    if ((s->live -= bytes) == 0) runs_.erase(s);
  }

  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  shared_mapping memory_;
  std::vector<heap_run> runs_;
  core::own_process owner_{};
};

/// The resource that `kolo::shm::heap` returns for processes: small blocks share pages and are kept for reuse, large
/// ones have their own pages. A process that a rank forks finds its parent's blocks here, frees none of them, and
/// allocates ordinary memory.
template <class Used = void>
class shared_heap : public std::pmr::memory_resource {
 public:
  explicit shared_heap(shared_mapping memory) : pages_{std::move(memory)} {}
  ~shared_heap() override {
    if (!pages_.is_owner()) (void)blocks_.release();  // the pool's own bookkeeping lies among the blocks
  }

 private:
  static constexpr std::size_t least_alignment = 64, largest_block = 64 * 1024;
  using pool = std::pmr::unsynchronized_pool_resource;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    alignment = std::max(alignment, least_alignment);
    const std::lock_guard lock{mutex_};
    try {
      if (pages_.is_owner())
        return is_small(bytes, alignment) ? blocks_->allocate(rounded(bytes, alignment), alignment)
                                          : pages_.allocate(bytes, alignment);
    } catch (const error&) {  // shared memory is exhausted
    }
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }

  void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
    alignment = std::max(alignment, least_alignment);
    const std::lock_guard lock{mutex_};
    if (!pages_.holds(p)) return std::pmr::new_delete_resource()->deallocate(p, bytes, alignment);
    if (!pages_.is_owner()) return;
    if (!is_small(bytes, alignment)) return pages_.deallocate(p, bytes, alignment);
    blocks_->deallocate(p, rounded(bytes, alignment), alignment);
  }

  static bool is_small(std::size_t bytes, std::size_t alignment) { return std::max(bytes, alignment) <= largest_block; }
  /// The blocks of a pool are contiguous, so they are aligned if their size is a multiple of the alignment.
  static std::size_t rounded(std::size_t bytes, std::size_t alignment) {
    return core::rounded_up(std::max<std::size_t>(bytes, 1), alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::mutex mutex_;
  shared_pages<Used> pages_;
  std::unique_ptr<pool> blocks_ = std::make_unique<pool>(std::pmr::pool_options{0, largest_block}, &pages_);
};

template <std::derived_from<shared_mapping> Memory>
resource_pointer heap_of(const Memory& memory) {
  return std::make_shared<shared_heap<>>(memory);
}
inline resource_pointer heap_of(const private_mapping&) {
  return ordinary_memory();
}  // threads address all memory of the process

}  // namespace kolo::inline KOLO_ABI::detail::shm

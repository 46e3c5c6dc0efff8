// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pinned memory for messages: taken, given back, and used again when the stream has done with it.
#pragma once

#include <kolo/cuda/runtime.hpp>

#include <bit>
#include <cstdint>
#include <deque>

namespace kolo::inline KOLO_ABI::detail::cuda {

class pinned_block {
 public:
  explicit pinned_block(std::size_t bytes) : memory_{kolo::cuda::allocate_pinned(bytes)}, bytes_{bytes} {}
  std::byte* data() const { return memory_.get(); }

 private:
  friend class pinned_pool;
  kolo::cuda::pinned_memory memory_;
  std::size_t bytes_;
  std::uint64_t free_after_ = 0;  ///< the gate that the stream has to pass first
  bool is_taken_ = true;
};

/// Blocks are made when none fits, and then kept: as many as have been under way at once, of sizes that are powers of
/// two.
class pinned_pool {
 public:
  pinned_block* take(std::size_t bytes) {
    pinned_block* best = nullptr;
    for (auto& b : blocks_)
      if (!b.is_taken_ && b.free_after_ <= passed_ && b.bytes_ >= bytes && (!best || b.bytes_ < best->bytes_))
        best = &b;
    if (!best) return &blocks_.emplace_back(std::bit_ceil(bytes < 4096 ? std::size_t{4096} : bytes));
    best->is_taken_ = true;
    return best;
  }
  void put_back(pinned_block* b, std::uint64_t free_after) {
    b->is_taken_ = false;
    b->free_after_ = free_after;
  }
  void passed(std::uint64_t gate) { passed_ = gate; }
  /// Nothing is freed: that would wait for what is on the streams.
  void abandon() {
    for (auto& b : blocks_) static_cast<void>(b.memory_.release());
  }

 private:
  std::deque<pinned_block> blocks_;  // they stay where they are
  std::uint64_t passed_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

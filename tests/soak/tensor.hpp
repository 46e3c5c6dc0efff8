// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tensor with a drawn layout and memory: contiguous, with gaps, in several pieces; ordinary memory, or memory that peers address.
#pragma once

#include <kolo/kolo.hpp>

#include <cstring>
#include <vector>

#include "soak/dice.hpp"

namespace soak {

enum class layout { contiguous, gaps, pieces };
inline constexpr const char* layout_names[] = {"contiguous", "with gaps", "in pieces"};

/// n elements and, around and between them, some that must not be written.
template <class T>
class tensor {
 public:
  template <class C>
  tensor(const C& comm, std::size_t n, layout how, dice d) : size_{n}, how_{how} {
    const bool reachable = d.one_in(2);
    shift_ = d.below<std::size_t>(5);
    width_ = how == layout::contiguous ? n : 1 + d.below<std::size_t>(how == layout::gaps ? 40 : 1 + n);
    gap_ = how == layout::contiguous ? 0 : 1 + d.below<std::size_t>(3);
    using allocator = kolo::shm::allocator<T>;
    memory_ = memory(2 * shift_ + rows() * (width_ + gap_) + n + 1, reachable ? allocator{comm} : allocator{});
    std::memset(static_cast<void*>(memory_.data()), 0xa5, memory_.size() * sizeof(T));
  }
  std::size_t size() const { return size_; }

  T& operator[](std::size_t i) { return memory_[place(i)]; }

  /// The views of the two types of layouts. Pieces with gaps are a bucket.
  std::span<T> span() { return {memory_.data() + shift_, size_}; }
  kolo::bucket<T> bucket() {
    std::vector<std::span<T>> runs;
    for (std::size_t i = 0; i < size_; i += width_) runs.push_back({&(*this)[i], std::min(width_, size_ - i)});
    return kolo::bucket<T>{std::span{std::as_const(runs)}};
  }

  bool is_contiguous() const { return how_ == layout::contiguous; }

  /// Whether the memory around the elements is unchanged.
  bool is_tidy() {
    T mark;
    std::memset(static_cast<void*>(&mark), 0xa5, sizeof mark);
    std::size_t next = 0;  // element
    for (std::size_t at = 0; at < memory_.size(); ++at) {
      if (next < size_ && at == place(next)) ++next;
      else if (std::memcmp(&memory_[at], &mark, sizeof mark) != 0) return false;
    }
    return true;
  }

 private:
  using memory = std::vector<T, kolo::shm::allocator<T>>;
  std::size_t rows() const { return width_ == 0 ? 0 : (size_ + width_ - 1) / width_; }
  std::size_t place(std::size_t i) const {
    return shift_ + (gap_ == 0 ? i : i / width_ * (width_ + gap_) + i % width_);
  }

  std::size_t size_, shift_ = 0, width_ = 0, gap_ = 0;
  layout how_;
  memory memory_;
};

/// f(view), with the type of view that the layout needs.
template <class T, class F>
auto with_view(tensor<T>& t, F f) {
  return t.is_contiguous() ? f(t.span()) : f(t.bucket());
}

}  // namespace soak

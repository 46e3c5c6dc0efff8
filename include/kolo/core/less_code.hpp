// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replacements for standard components that generate less code, since every program compiles them.
#pragma once

#include <kolo/config.hpp>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::core {

/// std::make_shared with a separate control block: instantiates a third of the functions. Not for hot paths.
template <class T, class... Args>
std::shared_ptr<T> shared(Args&&... args) {
  return std::shared_ptr<T>{new T(std::forward<Args>(args)...)};
}

/// An array whose size is fixed at construction: a sixth of a vector's functions. A const one has mutable elements,
/// like a pointer.
template <class T>
class dynarray {
 public:
  dynarray() = default;
  explicit dynarray(std::size_t n) : first_{new T[n]()}, size_{n} {}
  dynarray(dynarray&& other) noexcept
      : first_{std::exchange(other.first_, nullptr)}, size_{std::exchange(other.size_, std::size_t{0})} {}
  dynarray& operator=(dynarray&& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~dynarray() { delete[] first_; }

  T& operator[](std::size_t i) const { return first_[i]; }
  T* begin() const { return first_; }
  T* end() const { return first_ + size_; }
  std::size_t size() const { return size_; }

 private:
  T* first_ = nullptr;
  std::size_t size_ = 0;
};

/// Sets a variable; its destructor restores the previous value.
template <class T>
class scoped_value {
 public:
  scoped_value(T& it, std::type_identity_t<T> now) : it_{it}, before_{std::exchange(it, std::move(now))} {}
  scoped_value(const scoped_value&) = delete;
  scoped_value& operator=(const scoped_value&) = delete;
  ~scoped_value() { it_ = std::move(before_); }

 private:
  T& it_;
  T before_;
};

/// Removes from a vector the elements for which `goes` is true, and returns their number: as std::erase_if, but it
/// reorders the others.
std::size_t erase_if(auto& all, auto goes) {
  const std::size_t before = all.size();
  for (std::size_t i = before; i-- > 0;) {
    if (!goes(all[i])) continue;
    if (i + 1 < all.size()) all[i] = std::move(all.back());
    all.pop_back();
  }
  return before - all.size();
}

}  // namespace kolo::inline KOLO_ABI::detail::core

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A type-erased view: the places of elements, for code that only moves bytes.
#pragma once

#include <kolo/config.hpp>

#include <concepts>
#include <cstddef>

namespace kolo::inline KOLO_ABI {

/// Whose memory elements lie in. A view or a transport declares it in its type, as `static constexpr memory_space
/// space`.
enum class memory_space { host, device };

/// The host's by default.
template <class X>
inline constexpr memory_space space_of = memory_space::host;
template <class X>
  requires requires {
    { X::space } -> std::convertible_to<memory_space>;
  }
inline constexpr memory_space space_of<X> = X::space;

/// Contiguous elements: `count` of them from `data` on.
struct contiguous_run {
  std::byte* data;
  std::size_t count;
};

/// A type-erased view. Constness is erased too: an input must not be written through it. Made by `erase`; it refers to
/// the view, which must outlive it.
struct memory {
  std::byte* base = nullptr;  ///< the first element, if all are contiguous
  std::size_t count = 0;      ///< elements
  std::size_t element_bytes = 1;
  /// The run that begins at an element; null: all are contiguous.
  contiguous_run (*find)(const void* view, std::size_t element) = nullptr;
  const void* view = nullptr;  ///< the first argument of `find`

  /// The contiguous elements that begin at `element`, which must be less than `count`.
  contiguous_run at(std::size_t element) const {
    return find == nullptr ? contiguous_run{base + element * element_bytes, count - element} : find(view, element);
  }
  /// Whether it has elements, which would be at the null pointer.
  bool is_nowhere() const { return base == nullptr && count != 0 && find == nullptr; }
};

namespace detail::view {
/// No common element. For views that are not contiguous only the trivial cases are detected.
inline bool are_disjoint(const memory& a, const memory& b) {
  if (a.find || b.find || a.count == 0 || b.count == 0) return true;
  const auto *a_end = a.base + a.count * a.element_bytes, *b_end = b.base + b.count * b.element_bytes;
  return a_end <= b.base || b_end <= a.base;
}
}  // namespace detail::view

}  // namespace kolo::inline KOLO_ABI

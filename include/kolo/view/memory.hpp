// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A view without its types: where elements lie, for code that only moves bytes.
#pragma once

#include <cstddef>

namespace kolo::inline v0 {

/// Contiguous elements: how many there are from `data` on.
struct piece {
  std::byte* data;
  std::size_t count;
};

/// A view whose types are forgotten. Constness is forgotten too: whoever holds one of an input must not write through it.
/// Made by `erase`; it refers to the view, which has to outlive it.
struct memory {
  std::byte* base = nullptr;  ///< the first element, where all are contiguous
  std::size_t count = 0;      ///< elements
  std::size_t element_bytes = 1;
  piece (*find)(const void* view, std::size_t element) = nullptr;  ///< the run that begins at an element; null: all are contiguous
  const void* view = nullptr;                                      ///< what `find` is called with

  /// The contiguous elements that begin at `element`, which must be less than `count`.
  piece at(std::size_t element) const {
    return find == nullptr ? piece{base + element * element_bytes, count - element} : find(view, element);
  }
};

}  // namespace kolo::inline v0

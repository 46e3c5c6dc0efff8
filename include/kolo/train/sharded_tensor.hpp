// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tensor of a sharded model, as a member of a layer: all that the header of a model needs.
#pragma once

#include <kolo/config.hpp>

#include <cstddef>
#include <span>

namespace kolo::inline KOLO_ABI {

namespace detail::train {
template <class T, class Wire>
struct sharded_group;
}

/// A tensor that is whole only while its group is in use: a member of a layer, in place of a std::vector. It belongs to
/// one `sharded_parameters`, and must keep its address during the lifetime of that.
template <class T = float>
class sharded_tensor {
 public:
  explicit sharded_tensor(std::size_t elements) : size_{elements} {}

  std::size_t size() const { return size_; }           ///< elements, in use or not
  std::span<T> value() const { return value_; }        ///< empty while the group is not in use
  std::span<T> gradient() const { return gradient_; }  ///< empty except in a backward pass, where it is zero at first

 private:
  template <class, class>
  friend struct detail::train::sharded_group;

  std::size_t size_;
  std::span<T> value_{}, gradient_{};
};

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views of elements in a device's memory: addresses only, so they need nothing of CUDA.
#pragma once

#include <kolo/view/strided.hpp>

#include <cstddef>
#include <span>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// `device_span<float> g{pointer, count}`: contiguous elements in the memory of a device. It models View; the host must
/// not read or write the memory of its runs.
template <class T>
class device_span {
  static_assert(Element<std::remove_const_t<T>>, "kolo::device_span: an element must be trivially copyable");

 public:
  using element_type = T;
  static constexpr memory_space space = memory_space::device;

  constexpr device_span() = default;
  constexpr device_span(T* data, std::size_t count) : data_{data}, size_{count} {}
  template <class U>
    requires std::is_same_v<const U, T>
  constexpr device_span(const device_span<U>& other)
      : data_{other.data()}, size_{other.size()} {}  // NOLINT: a view that promises more

  constexpr T* data() const { return data_; }           ///< an address of the device
  constexpr std::size_t size() const { return size_; }  ///< elements
  /// Elements first ... first + count - 1.
  constexpr device_span subspan(std::size_t first, std::size_t count) const { return {data_ + first, count}; }

  /// The elements from element i on; i < size().
  constexpr std::span<T> run(std::size_t i) const { return {data_ + i, size_ - i}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// As kolo::strided, in the memory of a device. `kolo::bucket{g, h}` of device views is a device view as well.
template <class T, int N>
using device_strided = strided<T, N, memory_space::device>;

}  // namespace kolo::inline KOLO_ABI

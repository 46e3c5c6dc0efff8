// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A view of a tensor of N dimensions whose elements lie at constant distances.
#pragma once

#include <kolo/view/element.hpp>
#include <kolo/view/memory.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

namespace detail::view {
/// One number for each of N dimensions, of any integer types: `{rows, 4}`.
template <int N>
class per_dimension {
 public:
  template <std::integral... Number>
  constexpr per_dimension(Number... number) : values_{std::ptrdiff_t(number)...} {  // NOLINT: stands for a list
    static_assert(sizeof...(Number) == N, "kolo::strided has as many extents and strides as dimensions");
  }
  template <std::integral Number>
  constexpr per_dimension(const std::array<Number, std::size_t(N)>& numbers) {  // NOLINT: stands for a list
    for (std::size_t d = 0; d < N; ++d) values_[d] = std::ptrdiff_t(numbers[d]);
  }
  constexpr std::ptrdiff_t operator[](int d) const { return values_[std::size_t(d)]; }

 private:
  std::array<std::ptrdiff_t, std::size_t(N)> values_{};
};
}  // namespace detail::view

/// `strided<float, 2> columns{pointer, {rows, 4}, {stride, 1}}`: element (i, j) lies at pointer[i * stride + j]. The
/// last index runs fastest. Strides count elements and may be negative, or 0 if nothing is written; contiguous inner
/// dimensions are one run.
template <class T, int N, memory_space S = memory_space::host>
class strided {
  static_assert(Element<std::remove_const_t<T>>, "kolo::strided: an element must be trivially copyable");
  static_assert(N >= 1, "kolo::strided has at least one dimension");

 public:
  using element_type = T;
  static constexpr memory_space space = S;

  constexpr strided(T* data, detail::view::per_dimension<N> extents, detail::view::per_dimension<N> strides)
      : data_{data}, strides_{strides}, extents_{extents} {
    for (int d = 0; d < N; ++d) {
      if (extents[d] < 0)
        throw std::invalid_argument("kolo::strided: extent " + std::to_string(d) + " is " + std::to_string(extents[d]));
      if (extents[d] == 0) size_ = 0;
    }
    for (int d = 0; d < N; ++d)
      if (__builtin_mul_overflow(size_, std::size_t(extents[d]), &size_))
        throw std::invalid_argument("kolo::strided: it has more elements than can be counted");
    while (outer_ > 0 && (extents[outer_ - 1] == 1 || strides[outer_ - 1] == std::ptrdiff_t(run_)))
      run_ *= std::size_t(extents[--outer_]);
  }

  constexpr std::size_t size() const { return size_; }                  ///< elements, of all dimensions
  constexpr std::ptrdiff_t extent(int d) const { return extents_[d]; }  ///< elements of a dimension
  constexpr std::ptrdiff_t stride(int d) const { return strides_[d]; }  ///< elements between neighbours

  /// The contiguous elements from element i on; i < size().
  constexpr std::span<T> run(std::size_t i) const {
    const std::size_t within = i % run_;
    std::ptrdiff_t offset = std::ptrdiff_t(within);
    std::size_t rest = i / run_;
    for (int d = outer_ - 1; d >= 0; --d) {
      const auto extent = std::size_t(extents_[d]);
      offset += std::ptrdiff_t(rest % extent) * strides_[d];
      rest /= extent;
    }
    return {data_ + offset, run_ - within};
  }

 private:
  T* data_;
  detail::view::per_dimension<N> strides_, extents_;
  std::size_t size_ = 1;
  std::size_t run_ = 1;  // contiguous elements: dimensions outer_, outer_ + 1, ... together
  int outer_ = N;
};

}  // namespace kolo::inline KOLO_ABI

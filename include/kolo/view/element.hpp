// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The requirements on an element of a tensor, and which elements are summed in a wider type.
#pragma once

#include <kolo/config.hpp>

#include <concepts>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// An element: its bytes are its value. Collectives move it by copying them.
template <class T>
concept Element = std::is_object_v<T> && std::is_trivially_copyable_v<T> && !std::is_array_v<T> && !std::is_const_v<T>;

namespace detail::view {
/// The element type of a view whose element type is known at run time only: `kolo::elements`.
struct unknown_element {};

/// static_cast<To>(from) converts the value. (From C++20 on it compiles for every aggregate whose first member can be
/// initialised with `from`.)
template <class From, class To>
concept ConvertsTo = requires(const From& from) {
  static_cast<To>(from);
}
&&(!std::is_aggregate_v<To> || std::convertible_to<From, To> || requires(const From& from) { from.operator To(); });
}  // namespace detail::view

/// Two-byte floating-point types: `kolo::float16`, `kolo::bfloat16`, `_Float16`, `__bf16`, `__half`, `__nv_bfloat16`,
/// `Eigen::half`... are recognised by their conversions; none of them is named. (Not all standard libraries treat
/// `_Float16` as a floating-point type.)
template <class T>
concept HalfPrecision = Element<T> && sizeof(T) == 2 && !std::is_integral_v<T> &&
                        !std::is_enum_v<T> && detail::view::ConvertsTo<T, float> && detail::view::ConvertsTo<float, T>;

/// Whether sums of T are kept in float until they are stored. May be specialised for user-defined T.
template <class T>
inline constexpr bool accumulate_in_float = HalfPrecision<T>;

}  // namespace kolo::inline KOLO_ABI

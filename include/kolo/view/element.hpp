// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an element of a tensor may be, and which elements are added up in something wider than themselves.
#pragma once

#include <kolo/config.hpp>

#include <concepts>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// An element: its bytes are its value. Collectives move it by copying them.
template <class T>
concept Element = std::is_object_v<T> && std::is_trivially_copyable_v<T> && !std::is_array_v<T> && !std::is_const_v<T>;

namespace detail::view {
/// Stands where a view has an element type, and that is known at run time only: `kolo::elements`.
struct unknown_element {};

/// static_cast<To>(from) gives what `from` stands for. (From C++20 on it compiles for every aggregate whose first
/// member can begin with `from`.)
template <class From, class To>
concept ConvertsTo = requires(const From& from) {
  static_cast<To>(from);
}
&&(!std::is_aggregate_v<To> || std::convertible_to<From, To> || requires(const From& from) { from.operator To(); });
}  // namespace detail::view

/// Two bytes that are a number with a fraction: `kolo::float16`, `kolo::bfloat16`, `_Float16`, `__bf16`, `__half`,
/// `__nv_bfloat16`, `Eigen::half`... are recognised by what they can do; none of them is named. (Not all standard
/// libraries take `_Float16` for a floating-point type.)
template <class T>
concept HalfPrecision = Element<T> && sizeof(T) == 2 && !std::is_integral_v<T> &&
                        !std::is_enum_v<T> && detail::view::ConvertsTo<T, float> && detail::view::ConvertsTo<float, T>;

/// Whether sums of T are kept in float until they are stored. May be specialised for one's own T.
template <class T>
inline constexpr bool accumulate_in_float = HalfPrecision<T>;

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arithmetic of the built-in operators that C++ leaves open: small integers, overflow, NaN and signed zeros.
#pragma once

#include <kolo/config.hpp>
#include <kolo/view/element.hpp>

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace kolo::inline KOLO_ABI::detail::reduce {

/// The unsigned type, not narrower than int, in which integers are added and multiplied: results wrap around.
template <std::integral T>
using wrapping =
    typename std::conditional_t<(sizeof(T) > sizeof(int)), std::make_unsigned<T>, std::type_identity<unsigned>>::type;

/// float and double, whose bits can be processed as an integer of the same size.
template <class T>
concept HasFloatBits = std::floating_point<T> &&(sizeof(T) == 4 || sizeof(T) == 8) && std::numeric_limits<T>::is_iec559;

template <HasFloatBits T>
using float_bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Returns all bits set if `condition` holds, else 0. (64 bits come from a double: SSE2 has no comparison that yields
/// integers of 64 bits.)
template <HasFloatBits T>
KOLO_HOST_DEVICE constexpr float_bits<T> all_if(bool condition) {
  if constexpr (sizeof(T) == 4) return 0U - static_cast<float_bits<T>>(condition);
  else return __builtin_bit_cast(float_bits<T>, condition ? __builtin_bit_cast(T, ~float_bits<T>{0}) : T{0});
}

/// Other floating-point types: long double, and types of one or two bytes that convert to and from float; these are
/// compared as floats.
template <class T>
concept OtherFloat = std::floating_point<T> ||
    (Element<T> && sizeof(T) <= 2 && !std::is_integral_v<T> && !std::is_enum_v<T> && view::ConvertsTo<T, float> &&
     view::ConvertsTo<float, T>);
template <OtherFloat T>
using compared_as = std::conditional_t<std::floating_point<T>, T, float>;

// Compares both ways. Equal operands are identical, or zeros of both signs: the minimum ORs the signs, the maximum ANDs
// them. With a NaN neither comparison holds: in the minimum the masks clear all bits, and subtracting the 1 that was
// added before sets all of them.
template <class T>
KOLO_HOST_DEVICE constexpr T smaller_of(const T& a, const T& b) {
  if constexpr (HasFloatBits<T>) {
    const auto x = __builtin_bit_cast(float_bits<T>, a) + 1, y = __builtin_bit_cast(float_bits<T>, b) + 1;
    return __builtin_bit_cast(T, ((x & all_if<T>(a <= b)) | (y & all_if<T>(b <= a))) - 1);
  } else if constexpr (OtherFloat<T>) {
    const auto x = static_cast<compared_as<T>>(a), y = static_cast<compared_as<T>>(b);
    if (x != x || y != y) return static_cast<T>(__builtin_bit_cast(float, ~0U));
    return x < y || (x == y && __builtin_signbit(x)) ? a : b;
  } else {
    return b < a ? b : a;
  }
}

template <class T>
KOLO_HOST_DEVICE constexpr T larger_of(const T& a, const T& b) {
  if constexpr (HasFloatBits<T>) {
    const auto x = __builtin_bit_cast(float_bits<T>, a), y = __builtin_bit_cast(float_bits<T>, b);
    return __builtin_bit_cast(T, (x | all_if<T>(!(a >= b))) & (y | all_if<T>(!(b >= a))));
  } else if constexpr (OtherFloat<T>) {
    const auto x = static_cast<compared_as<T>>(a), y = static_cast<compared_as<T>>(b);
    if (x != x || y != y) return static_cast<T>(__builtin_bit_cast(float, ~0U));
    return y < x || (x == y && !__builtin_signbit(x)) ? a : b;
  } else {
    return a < b ? b : a;
  }
}

/// The type of an element's divisor: its component type (std::complex), float, or its own type.
template <class T>
struct divisor : std::type_identity<T> {};
template <class T>
concept HasValueType = requires {
  typename T::value_type;
};
template <class T>
concept DividedByFloat = !std::floating_point<T> && !HasValueType<T> && requires(const T& x) {
  x / 1.0F;
};
template <HasValueType T>
struct divisor<T> : std::type_identity<typename T::value_type> {};
template <DividedByFloat T>
struct divisor<T> : std::type_identity<float> {};

template <class T>
concept Divisible = !std::numeric_limits<T>::is_integer && requires(const T& x, typename divisor<T>::type n) {
  { x / n } -> view::ConvertsTo<T>;
};

/// Types for which the built-in operators have identities.
template <class T>
concept Number = std::is_arithmetic_v<T> || accumulate_in_float<T>;

/// T itself, or float for a type that accumulates in float.
template <Number T>
using range_type = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

/// The least value: minus infinity if T has one. `greatest` is its counterpart.
template <Number T>
KOLO_HOST_DEVICE constexpr T least() {
  using limits = std::numeric_limits<range_type<T>>;
  constexpr auto value = limits::has_infinity ? -limits::infinity() : limits::lowest();
  return static_cast<T>(value);
}
template <Number T>
KOLO_HOST_DEVICE constexpr T greatest() {
  using limits = std::numeric_limits<range_type<T>>;
  constexpr auto value = limits::has_infinity ? limits::infinity() : limits::max();
  return static_cast<T>(value);
}

}  // namespace kolo::inline KOLO_ABI::detail::reduce

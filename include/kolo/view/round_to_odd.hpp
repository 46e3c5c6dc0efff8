// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rounding in two steps without double rounding: to float such that a further step, to 16 bits, is still right.
#pragma once

#include <kolo/config.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace kolo::inline KOLO_ABI::detail::view {

/// Towards zero; then, if anything was lost, the last bit is set. That bit tells the next rounding that the value is
/// slightly larger, so that an apparent tie is none.
KOLO_HOST_DEVICE constexpr float round_to_odd(double x) {
  // Beyond float's range a conversion is undefined: all such values become the largest float, which is odd.
  constexpr double largest = 0x1.fffffep+127;
  const double size = x < 0 ? -x : x;
  const bool beyond = size > largest && size <= 0x1.fffffffffffffp+1023;
  const auto nearest = float(beyond ? (x < 0 ? -largest : largest) : x);
  const double back = nearest < 0 ? -double(nearest) : double(nearest);
  const bool too_large = back > size, lost = back < size || too_large;
  return __builtin_bit_cast(float,
                            (__builtin_bit_cast(std::uint32_t, nearest) - (too_large ? 1U : 0U)) | (lost ? 1U : 0U));
}

/// The same for values beyond double's range, which become a double in the same way.
template <class Number>
KOLO_HOST_DEVICE constexpr float round_to_odd(Number x) {
  using limits = std::numeric_limits<Number>;
  if constexpr (limits::digits <= 53) {
    return round_to_odd(double(x));
  } else if constexpr (limits::is_integer) {
    auto size = static_cast<std::make_unsigned_t<Number>>(x);
    if (x < 0) size = 0 - size;
    double unit = x < 0 ? -1 : 1;
    for (; size >> 53 != 0; unit *= 2) size = (size >> 1) | (size & 1);
    return round_to_odd(double(size) * unit);
  } else {
    const auto nearest = double(x);
    const bool too_large = x < 0 ? nearest < x : nearest > x;
    return round_to_odd(__builtin_bit_cast(
        double, (__builtin_bit_cast(std::uint64_t, nearest) - (too_large ? 1U : 0U)) | (nearest != x ? 1U : 0U)));
  }
}

}  // namespace kolo::inline KOLO_ABI::detail::view

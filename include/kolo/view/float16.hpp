// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// float16: IEEE binary16 as an element type that is stored and sent; arithmetic happens in float.
#pragma once

#include <kolo/config.hpp>
#include <kolo/view/round_to_odd.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace kolo::inline v0 {

/// 1 bit of sign, 5 of exponent, 10 of fraction. Widening is implicit and exact. Narrowing is explicit and rounds to nearest, ties
/// to even; every NaN becomes the quiet one whose bits are all set. Neither branches, so that loops become vector instructions.
class float16 {
 public:
  float16() = default;
  KOLO_HOST_DEVICE constexpr explicit float16(float x) : bits_{narrow(x)} {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  KOLO_HOST_DEVICE constexpr explicit float16(Number x) : bits_{narrow(detail::round_to_odd(static_cast<double>(x)))} {}

  KOLO_HOST_DEVICE static constexpr float16 from_bits(std::uint16_t bits) {
    float16 x{};
    x.bits_ = bits;
    return x;
  }
  KOLO_HOST_DEVICE constexpr std::uint16_t bits() const { return bits_; }
  KOLO_HOST_DEVICE constexpr operator float() const { return widen(bits_); }  // NOLINT(google-explicit-constructor): exact

 private:
  KOLO_HOST_DEVICE static constexpr std::uint32_t all_if(bool condition) { return 0U - static_cast<std::uint32_t>(condition); }
  KOLO_HOST_DEVICE static constexpr std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
  KOLO_HOST_DEVICE static constexpr float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
  KOLO_HOST_DEVICE static constexpr std::uint32_t exponent(int e) { return static_cast<std::uint32_t>(e + 127) << 23; }  // 2^e

  // Fraction and exponent move to their places in a float, whose exponent is biased by 127 instead of 15. A subnormal lacks the
  // leading one that a float implies: it is given one, as 2^-14, which the subtraction takes away again, exactly.
  KOLO_HOST_DEVICE static constexpr float widen(std::uint16_t half) {
    const std::uint32_t magnitude = (std::uint32_t{half} & 0x7fffU) << 13;
    const std::uint32_t not_subnormal = all_if(static_cast<std::int32_t>(magnitude) > 0x007fffff);
    const std::uint32_t infinite_or_nan = all_if(static_cast<std::int32_t>(magnitude) > 0x0f7fffff);
    const std::uint32_t biased = magnitude + exponent(-15) + (~not_subnormal & 0x00800000U);
    const float finite = float_of(biased) - float_of(~not_subnormal & exponent(-14));
    return float_of(bits_of(finite) | (infinite_or_nan & 0x7f800000U) | (std::uint32_t{half} & 0x8000U) << 16);
  }

  // A normal result is rounded by adding just less than half of its last bit, or just half if that bit is odd. For a subnormal
  // one, adding 0.5 makes the processor round: there a float's last bit is worth 2^-24. From 2^16 on all is infinite.
  KOLO_HOST_DEVICE static constexpr std::uint16_t narrow(float x) {
    const std::uint32_t magnitude = bits_of(x) & 0x7fffffffU;
    const std::uint32_t not_subnormal = all_if(static_cast<std::int32_t>(magnitude) > 0x387fffff);
    const std::uint32_t is_infinite = all_if(static_cast<std::int32_t>(magnitude) > 0x477fffff);
    const std::uint32_t subnormal = bits_of(float_of(magnitude & ~not_subnormal) + 0.5F) - bits_of(0.5F);
    const std::uint32_t normal = (magnitude - exponent(-15) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    const std::uint32_t rounded = subnormal | (normal & not_subnormal & ~is_infinite) | (is_infinite & 0x7c00U);
    return static_cast<std::uint16_t>(((rounded << 16) | (bits_of(x) & 0x80000000U) | all_if(x != x)) >> 16);
  }

  std::uint16_t bits_;
};

}  // namespace kolo::inline v0

template <>
class std::numeric_limits<kolo::float16> : public std::numeric_limits<float> {
  using value = kolo::float16;

 public:
  static constexpr int digits = 11, digits10 = 3, max_digits10 = 5;
  static constexpr int min_exponent = -13, min_exponent10 = -4, max_exponent = 16, max_exponent10 = 4;
  static constexpr value min() noexcept { return value::from_bits(0x0400); }
  static constexpr value max() noexcept { return value::from_bits(0x7bff); }
  static constexpr value lowest() noexcept { return value::from_bits(0xfbff); }
  static constexpr value epsilon() noexcept { return value::from_bits(0x1400); }
  static constexpr value round_error() noexcept { return value::from_bits(0x3800); }
  static constexpr value infinity() noexcept { return value::from_bits(0x7c00); }
  static constexpr value quiet_NaN() noexcept { return value::from_bits(0x7e00); }
  static constexpr value signaling_NaN() noexcept { return value::from_bits(0x7d00); }
  static constexpr value denorm_min() noexcept { return value::from_bits(0x0001); }
};

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// bfloat16: the upper half of a float, as an element type that is stored and sent; arithmetic happens in float.
#pragma once

#include <kolo/config.hpp>
#include <kolo/view/round_to_odd.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// 1 bit of sign, 8 of exponent, 7 of fraction. Widening is implicit and exact. Narrowing is explicit and rounds to
/// nearest, ties to even; every NaN becomes the quiet one whose bits are all set. Neither branches, so that loops
/// become vector instructions.
class bfloat16 {
 public:
  bfloat16() = default;
  KOLO_HOST_DEVICE constexpr explicit bfloat16(float x) : bits_{narrow(x)} {}
  template <class Number>
  requires std::is_arithmetic_v<Number> KOLO_HOST_DEVICE constexpr explicit bfloat16(Number x)
      : bits_{narrow(detail::view::round_to_odd(x))} {}

  KOLO_HOST_DEVICE static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 x{};
    x.bits_ = bits;
    return x;
  }
  KOLO_HOST_DEVICE constexpr std::uint16_t bits() const { return bits_; }
  KOLO_HOST_DEVICE constexpr operator float() const {  // NOLINT(google-explicit-constructor): exact
    return __builtin_bit_cast(float, std::uint32_t{bits_} << 16);
  }

 private:
  KOLO_HOST_DEVICE static constexpr std::uint16_t narrow(float x) {
    const auto bits = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t nan = x != x ? ~0U : 0U;
    return std::uint16_t(((bits + 0x7fffU + ((bits >> 16) & 1U)) | nan) >> 16);
  }

  std::uint16_t bits_;
};

}  // namespace kolo::inline KOLO_ABI

template <>
class std::numeric_limits<kolo::bfloat16> : public std::numeric_limits<float> {
  using value = kolo::bfloat16;

 public:
  static constexpr int digits = 8, digits10 = 2, max_digits10 = 4;
  static constexpr value min() noexcept { return value::from_bits(0x0080); }
  static constexpr value max() noexcept { return value::from_bits(0x7f7f); }
  static constexpr value lowest() noexcept { return value::from_bits(0xff7f); }
  static constexpr value epsilon() noexcept { return value::from_bits(0x3c00); }
  static constexpr value round_error() noexcept { return value::from_bits(0x3f00); }
  static constexpr value infinity() noexcept { return value::from_bits(0x7f80); }
  static constexpr value quiet_NaN() noexcept { return value::from_bits(0x7fc0); }
  static constexpr value signaling_NaN() noexcept { return value::from_bits(0x7fa0); }
  static constexpr value denorm_min() noexcept { return value::from_bits(0x0001); }
};

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two 8-bit floating-point formats of accelerators (OCP 8-bit floating point): element types that are stored and
// sent; arithmetic happens in float.
#pragma once

#include <kolo/view/round_to_odd.hpp>

#include <cstdint>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// 1 bit of sign, `Exponent` bits of exponent, the rest fraction; `Greatest`: the bits of the greatest number. Widening
/// is implicit and exact. Narrowing is explicit, rounds to nearest, ties to even, and saturates: larger values become
/// the greatest number. A NaN becomes the one whose bits are all set except the sign.
template <int Exponent, std::uint8_t Greatest>
class float8 {
  static constexpr int fraction = 7 - Exponent, bias = (1 << (Exponent - 1)) - 1, dropped = 23 - fraction;
  static constexpr std::uint32_t rebias = std::uint32_t(127 - bias);

 public:
  float8() = default;
  constexpr explicit float8(float x) : bits_{narrow(x)} {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr explicit float8(Number x) : bits_{narrow(detail::view::round_to_odd(x))} {}

  static constexpr float8 from_bits(std::uint8_t bits) {
    float8 x{};
    x.bits_ = bits;
    return x;
  }
  static constexpr float8 greatest() { return from_bits(Greatest); }
  constexpr std::uint8_t bits() const { return bits_; }
  constexpr operator float() const { return widen(bits_); }  // NOLINT(google-explicit-constructor): exact

 private:
  static constexpr std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
  static constexpr float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

  /// A float whose last fraction bit has the weight of this format's least number.
  static constexpr float aligned = float_of((rebias + 1 + std::uint32_t(dropped)) << 23);
  static constexpr float least = float_of((rebias + 1 - std::uint32_t(fraction)) << 23);

  /// By masks: no compiler vectorises floating-point arithmetic under a condition.
  static constexpr std::uint32_t choose(bool first, std::uint32_t a, std::uint32_t b) {
    const std::uint32_t mask = 0U - std::uint32_t(first);
    return (a & mask) | (b & ~mask);
  }

  static constexpr std::uint8_t narrow(float x) {
    const std::uint32_t all = bits_of(x), size = all & 0x7fffffffU;
    const std::uint32_t rounded = (size + (1U << (dropped - 1)) - 1 + ((size >> dropped) & 1)) >> dropped;
    const std::uint32_t normal = rounded - (rebias << fraction);
    const std::uint32_t bounded = size < 0x40000000U ? size : 0x40000000U;
    const std::uint32_t subnormal = bits_of(float_of(bounded) + aligned) - bits_of(aligned);
    const std::uint32_t saturated = normal > Greatest ? Greatest : normal;
    const std::uint32_t number = choose(size >= ((rebias + 1) << 23), saturated, subnormal);
    return std::uint8_t(choose(size > 0x7f800000U, 0x7fU, number) | ((all >> 24) & 0x80U));
  }

  static constexpr float widen(std::uint8_t bits) {
    const std::uint32_t size = bits & 0x7fU, sign = (bits & 0x80U) << 24;
    const std::uint32_t normal = (size << dropped) + (rebias << 23);
    const std::uint32_t subnormal = bits_of(float(std::int32_t(size)) * least);
    const std::uint32_t finite = choose(size < (1U << fraction), subnormal, normal);
    const bool is_infinite = size == Greatest + 1U && size != 0x7fU;
    return float_of(choose(size > Greatest, choose(is_infinite, 0x7f800000U, 0x7fc00000U), finite) | sign);
  }

  std::uint8_t bits_;
};

using fp8_e4m3 = float8<4, 0x7e>;  ///< to 448, in steps of an eighth; no infinity
using fp8_e5m2 = float8<5, 0x7b>;  ///< to 57344, in steps of a quarter

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// float16: IEEE binary16 as an element type that is stored and sent; arithmetic happens in float.
#pragma once

#include <kolo/config.hpp>
#include <kolo/view/round_to_odd.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

#if defined(__F16C__) || KOLO_CHOOSES_VECTORS
namespace detail::view {
using eight_floats [[gnu::vector_size(32)]] = float;
using eight_words [[gnu::vector_size(32)]] = int;
using eight_halves [[gnu::vector_size(16)]] = short;
}  // namespace detail::view
#endif

/// 1 bit of sign, 5 of exponent, 10 of fraction. Widening is implicit and exact. Narrowing is explicit and rounds to
/// nearest, ties to even; every NaN becomes the quiet one whose bits are all set. Neither branches, so that loops
/// become vector instructions.
class float16 {
 public:
  float16() = default;
  KOLO_HOST_DEVICE constexpr explicit float16(float x) : bits_{narrow(x)} {}
  template <class Number>
  requires std::is_arithmetic_v<Number> KOLO_HOST_DEVICE constexpr explicit float16(Number x)
      : bits_{narrow(detail::view::round_to_odd(x))} {}

  KOLO_HOST_DEVICE static constexpr float16 from_bits(std::uint16_t bits) {
    float16 x{};
    x.bits_ = bits;
    return x;
  }
  KOLO_HOST_DEVICE constexpr std::uint16_t bits() const { return bits_; }
  KOLO_HOST_DEVICE constexpr operator float() const {
    return widen(bits_);
  }  // NOLINT(google-explicit-constructor): exact

#if defined(__F16C__) || KOLO_CHOOSES_VECTORS
  /// Eight at a time, by the processor; differs only in the payload of a NaN that is widened.
  KOLO_TARGET("f16c") static void widen_eight(float* to, const std::byte* from) {
    detail::view::eight_halves halves;
    std::memcpy(&halves, from, sizeof halves);
    detail::view::eight_floats wide;  // else clang, seeing their origin, would compare halves one by one
    __asm__("vcvtph2ps {%1, %0|%0, %1}" : "=x"(wide) : "x"(halves));
    std::memcpy(to, &wide, sizeof wide);
  }
  KOLO_TARGET("f16c") static void narrow_eight(std::byte* to, const float* from) {
    detail::view::eight_floats wide;
    std::memcpy(&wide, from, sizeof wide);
    const detail::view::eight_words nan = wide != wide,
                                    all_bits = __builtin_bit_cast(detail::view::eight_words, wide) | nan;
    const detail::view::eight_halves halves =
        __builtin_ia32_vcvtps2ph256(__builtin_bit_cast(detail::view::eight_floats, all_bits), 0);
    std::memcpy(to, &halves, sizeof halves);
  }
#endif

 private:
  KOLO_HOST_DEVICE static constexpr std::uint32_t all_if(bool condition) { return 0U - std::uint32_t(condition); }
  KOLO_HOST_DEVICE static constexpr std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
  KOLO_HOST_DEVICE static constexpr float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

  // Moves fraction and exponent to the top of a float's range, 2^112 times too large, where the exponent of infinity
  // and NaN has the same meaning. A subnormal gets a leading one that it does not have, as 2^-14, and half its size:
  // without them it is the smaller one. (A float that is subnormal, too, would be simpler, but may be slow, or flushed
  // to zero. Constant expressions compute no NaN.)
  KOLO_HOST_DEVICE static constexpr float widen(std::uint16_t half) {
    const std::uint32_t upper = std::uint32_t{half} << 16;
    if (__builtin_is_constant_evaluated() && (upper & 0x7fffffffU) > 0x7c000000U) return float_of(upper | 0x7fc00000U);
    const float large = float_of(bits_of(0x1p97F) | ((upper >> 3) & 0x0fffe000U));
    const float normal = large * 0x1p-112F, subnormal = large * 0x1p-111F - 0x1p-14F;
    return float_of(bits_of(subnormal < normal ? subnormal : normal) | (upper & 0x80000000U));
  }

  // The processor rounds: after adding 2^13 times the power of two in x, or 2^-1 if that is more, a float's last bit
  // has the weight of the half's last bit. Then the half's fraction, with its leading one, is at the bottom of the sum,
  // and its exponent 13 bits above its place, except for a constant that 0x800 corrects. From 2^16 on the result is
  // infinite. (The shift at the end is for g++, which would otherwise do the last steps in 16 bits, and shuffle before
  // each of them.)
  KOLO_HOST_DEVICE static constexpr std::uint16_t narrow(float x) {
    const std::uint32_t magnitude = bits_of(x) & 0x7fffffffU;
    const std::uint32_t infinite = all_if(std::int32_t(magnitude) > 0x477fffff);
    const float size = float_of(magnitude & ~infinite);
    const float normal = size + float_of((bits_of(size) & 0x7f800000U) + (13U << 23) + 0x800U);
    const float subnormal = size + float_of(bits_of(0x1p-1F) + 0x800U);
    const std::uint32_t total = bits_of(normal < subnormal ? subnormal : normal);
    const std::uint32_t finite = (total + (total >> 13)) << 16;
    return std::uint16_t((finite | (infinite & 0x7c000000U) | (bits_of(x) & 0x80000000U) | all_if(x != x)) >> 16);
  }

  std::uint16_t bits_;
};

}  // namespace kolo::inline KOLO_ABI

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

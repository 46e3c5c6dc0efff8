// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Eight-bit numbers compared with the definition of their formats, value by value.
#include <kolo/view/element.hpp>
#include <kolo/view/float8.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "support/catch.hpp"

namespace {

/// The positive number with these bits, by the definition of the format. `fraction`: its bits of fraction.
double value_of(int fraction, int bits) {
  const int bias = fraction == 3 ? 7 : 15, exponent = bits >> fraction, rest = bits & ((1 << fraction) - 1);
  return exponent == 0 ? std::ldexp(rest, 1 - bias - fraction)
                       : std::ldexp(rest + (1 << fraction), exponent - bias - fraction);
}

template <class T>
void check(int fraction, int greatest) {
  int wrong = 0;
  for (int bits = 0; bits <= greatest; ++bits) {
    const double x = value_of(fraction, bits), above = value_of(fraction, bits + 1);
    const auto tie = static_cast<float>((x + above) / 2);  // exact
    const auto narrowed = [](float y) { return int{T(y).bits()}; };
    const int up = bits == greatest ? bits : bits + 1, even = bits % 2 == 0 ? bits : up;
    for (const int sign : {0, 0x80}) {
      const float s = sign == 0 ? 1 : -1;
      const auto itself = T::from_bits(static_cast<std::uint8_t>(bits | sign));
      wrong += float{itself} != s * static_cast<float>(x) || std::signbit(float{itself}) != (sign != 0);
      wrong += narrowed(float{itself}) != (bits | sign);
      wrong += narrowed(s * tie) != (even | sign);
      wrong += narrowed(s * std::nextafter(tie, 0.0F)) != (bits | sign);
      wrong += narrowed(s * std::nextafter(tie, HUGE_VALF)) != (up | sign);
      wrong += T(double{s} * std::nextafter(double{tie}, 0.0)).bits() != (bits | sign);  // a float would be the tie
      wrong += T(double{s} * std::nextafter(double{tie}, HUGE_VAL)).bits() != (up | sign);
    }
  }
  CHECK(wrong == 0);
  for (const float large : {1e6F, 1e30F, std::numeric_limits<float>::max(), HUGE_VALF}) {
    CHECK(T(large).bits() == greatest);
    CHECK(T(-large).bits() == (greatest | 0x80));
  }
  CHECK(T(0x1p-149F).bits() == 0);
  CHECK(T(std::nanf("")).bits() == 0x7f);
  CHECK(std::isnan(float{T::from_bits(0x7f)}));
  CHECK(float{T::greatest()} == static_cast<float>(value_of(fraction, greatest)));
  static_assert(float{T(1.5F)} == 1.5F && sizeof(T) == 1 && std::is_trivially_default_constructible_v<T> &&
                kolo::Element<T> && !std::is_convertible_v<float, T> && std::is_convertible_v<T, float>);
}

}  // namespace

TEST_CASE("each eight-bit number widens to its value, and a value between two is narrowed to the nearer") {
  check<kolo::fp8_e4m3>(3, 0x7e);
  check<kolo::fp8_e5m2>(2, 0x7b);
  CHECK(float{kolo::fp8_e4m3::greatest()} == 448);
  CHECK(float{kolo::fp8_e5m2::greatest()} == 57344);
  CHECK(std::isinf(float{kolo::fp8_e5m2::from_bits(0x7c)}));
  CHECK(std::isnan(float{kolo::fp8_e5m2::from_bits(0x7d)}));
}

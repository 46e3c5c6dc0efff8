// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// float16 and bfloat16 compared with a reference without bit operations: the sorted list of all values.
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/element.hpp>
#include <kolo/view/float16.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#elif __has_include(<eigen3/Eigen/Core>)
#include <eigen3/Eigen/Core>
#endif

#include "support/catch.hpp"

namespace {

using kolo::bfloat16;
using kolo::float16;

struct format {
  int exponent_bits, fraction_bits;
};
template <class T>
constexpr format format_of = std::is_same_v<T, float16> ? format{5, 10} : format{8, 7};

/// The value of a pattern, by the definition of the format; NaN and infinity included.
double value_of(format f, unsigned bits) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1, ones = (1 << f.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> f.fraction_bits) & ones;
  const int fraction = static_cast<int>(bits) & ((1 << f.fraction_bits) - 1);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == ones) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - f.fraction_bits);
  return sign * std::ldexp(fraction + (1 << f.fraction_bits), exponent - bias - f.fraction_bits);
}

/// Rounds by looking for the neighbours in the sorted list of all finite magnitudes, whose indices are their bits.
class reference {
 public:
  explicit reference(format f) {
    for (unsigned bits = 0; std::isfinite(value_of(f, bits)); ++bits) magnitudes_.push_back(value_of(f, bits));
    magnitudes_.push_back(2 * magnitudes_.back() -
                          magnitudes_[magnitudes_.size() - 2]);  // where infinity begins to be nearest
  }
  unsigned round(double x) const {
    const unsigned sign = std::signbit(x) ? 0x8000U : 0;
    const double size = std::abs(x);
    const auto above = std::lower_bound(magnitudes_.begin(), magnitudes_.end(), size);
    if (above == magnitudes_.end()) return sign | static_cast<unsigned>(magnitudes_.size() - 1);
    const auto index = static_cast<unsigned>(above - magnitudes_.begin());
    if (index == 0 || *above == size) return sign | index;
    const double down = size - *(above - 1), up = *above - size;
    return sign | (down < up || (down == up && index % 2 == 1) ? index - 1 : index);
  }
  const std::vector<double>& magnitudes() const { return magnitudes_; }

 private:
  std::vector<double> magnitudes_;
};

template <class T>
bool is_quiet_nan(T x) {
  const unsigned fraction = 1U << format_of<T>.fraction_bits;
  return std::isnan(value_of(format_of<T>, x.bits())) && (x.bits() & (fraction >> 1)) != 0;
}

}  // namespace

TEMPLATE_TEST_CASE("widening gives the value of each of the 65,536 patterns, and narrowing restores the pattern", "",
                   float16, bfloat16) {
  int wrong = 0;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto x = TestType::from_bits(static_cast<std::uint16_t>(bits));
    const double expected = value_of(format_of<TestType>, bits);
    const float wide = x;
    if (std::isnan(expected)) {
      wrong += !std::isnan(wide) || !is_quiet_nan(TestType(wide)) || !is_quiet_nan(TestType(static_cast<double>(wide)));
    } else {
      wrong += wide != expected || std::signbit(wide) != std::signbit(expected);
      wrong += TestType(wide).bits() != bits || TestType(expected).bits() != bits;
    }
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("narrowing rounds to nearest, ties to even, from float and from double", "", float16, bfloat16) {
  const reference expected{format_of<TestType>};
  int wrong = 0;
  const auto check = [&](double x) {
    for (const double signed_x : {x, -x}) {
      wrong += TestType(signed_x).bits() != expected.round(signed_x);
      const auto single = static_cast<float>(signed_x);
      wrong += TestType(single).bits() != expected.round(static_cast<double>(single));
    }
  };
  for (std::size_t i = 0; i + 1 < expected.magnitudes().size();
       ++i) {  // each tie, and its neighbours in double and in float
    const double tie = (expected.magnitudes()[i] + expected.magnitudes()[i + 1]) / 2;
    const auto single = static_cast<float>(tie);
    for (const double x : {tie, std::nextafter(tie, 0.0), std::nextafter(tie, HUGE_VAL),
                           double{std::nextafter(single, 0.0F)}, double{std::nextafter(single, HUGE_VALF)}})
      if (std::abs(x) <= double{std::numeric_limits<float>::max()}) check(x);
  }
  CHECK(wrong == 0);

  std::uint32_t state = 1;  // floats of every exponent
  for (int i = 0; i < 200'000; ++i) {
    state = state * 1664525U + 1013904223U;
    const auto x = __builtin_bit_cast(float, state ^ (state >> 15));
    if (std::isfinite(x)) check(static_cast<double>(x));
  }
  CHECK(wrong == 0);
}

TEST_CASE("64-bit integers and long double are rounded once, too") {
  const auto near_tie = [](auto tie, auto step, auto even, auto odd) {  // below, at and above it, of both signs
    using T = decltype(even);
    for (const auto& [x, expected] : {std::pair{tie - step, even}, {tie, even}, {tie + step, odd}}) {
      CHECK(T(x).bits() == expected.bits());
      CHECK(T(-x).bits() == T(-float{expected}).bits());
    }
  };
  near_tie((std::int64_t{1} << 62) + (std::int64_t{1} << 54), std::int64_t{1}, bfloat16(0x1p62F), bfloat16(0x1.02p62F));
  CHECK(bfloat16((std::uint64_t{1} << 63) + (std::uint64_t{1} << 55) + 1).bits() == bfloat16(0x1.02p63F).bits());
  CHECK(bfloat16(std::numeric_limits<std::int64_t>::min()).bits() == bfloat16(-0x1p63F).bits());
  CHECK(bfloat16(std::numeric_limits<std::uint64_t>::max()).bits() == bfloat16(0x1p64F).bits());
  static_assert(bfloat16(std::int64_t{0}).bits() == 0 && float16(0.0L).bits() == 0);
  static_assert(bfloat16((std::int64_t{1} << 53) - 1).bits() == bfloat16(0x1p53F).bits());
  if constexpr (std::numeric_limits<long double>::digits >= 64) {
    near_tie(1 + 0x1p-8L, 0x1p-62L, bfloat16(1.0F), bfloat16(0x1.02p0F));
    near_tie(1 + 0x1p-11L, 0x1p-62L, float16(1.0F), float16(0x1.004p0F));
    CHECK(float16(std::numeric_limits<long double>::max()).bits() == float16(HUGE_VALF).bits());
    CHECK(is_quiet_nan(float16(std::numeric_limits<long double>::quiet_NaN())));
  }
}

TEMPLATE_TEST_CASE("values outside the range of float are rounded", "", float16, bfloat16) {
  CHECK(TestType(1e300).bits() == TestType(HUGE_VALF).bits());
  CHECK(TestType(-1e300).bits() == TestType(-HUGE_VALF).bits());
  CHECK(TestType(HUGE_VAL).bits() == TestType(HUGE_VALF).bits());
  CHECK(TestType(1e-300).bits() == 0);
  CHECK(TestType(-1e-300).bits() == 0x8000);
  CHECK(is_quiet_nan(TestType(std::nan(""))));
  CHECK(is_quiet_nan(TestType(-std::nanf("1"))));
}

TEMPLATE_TEST_CASE("other numbers convert too, and a round trip is a constant expression", "", float16, bfloat16) {
  static_assert(float{TestType(3)} == 3.0F && float{TestType(-2L)} == -2.0F && float{TestType(0.5L)} == 0.5F);
  static_assert(float{TestType(1e-9F)} < 1e-7F && float{TestType(65536.0F)} >= 65536.0F);
  static_assert(TestType(std::numeric_limits<float>::quiet_NaN()).bits() == 0xffff);
  constexpr float nan = std::numeric_limits<TestType>::quiet_NaN();
  static_assert(nan != nan &&
                float{std::numeric_limits<TestType>::infinity()} == std::numeric_limits<float>::infinity());
  static_assert(sizeof(TestType) == 2 && std::is_trivially_default_constructible_v<TestType> &&
                kolo::Element<TestType>);
  static_assert(!std::is_convertible_v<float, TestType> && std::is_convertible_v<TestType, float>);
  CHECK(TestType(1) + TestType(2) == 3.0F);
}

TEMPLATE_TEST_CASE("limits are those of the format", "", float16, bfloat16) {
  using limits = std::numeric_limits<TestType>;
  const format f = format_of<TestType>;
  const reference sorted{f};
  const auto& magnitudes = sorted.magnitudes();
  static_assert(limits::is_specialized);
  CHECK(double{limits::max()} == magnitudes[magnitudes.size() - 2]);
  CHECK(double{limits::lowest()} == -magnitudes[magnitudes.size() - 2]);
  CHECK(double{limits::denorm_min()} == magnitudes[1]);
  CHECK(double{limits::min()} == magnitudes[std::size_t{1} << f.fraction_bits]);
  CHECK(double{limits::epsilon()} == std::ldexp(1.0, -f.fraction_bits));
  CHECK(double{limits::round_error()} == 0.5);
  CHECK(limits::digits == f.fraction_bits + 1);
  CHECK(std::ldexp(1.0, limits::min_exponent - 1) == double{limits::min()});
  CHECK(std::ldexp(1.0, limits::max_exponent) > double{limits::max()});
  CHECK(std::ldexp(1.0, limits::max_exponent - 1) <= double{limits::max()});
  CHECK(std::isinf(float{limits::infinity()}));
  CHECK(is_quiet_nan(limits::quiet_NaN()));
  CHECK(std::isnan(float{limits::signaling_NaN()}));
  CHECK_FALSE(is_quiet_nan(limits::signaling_NaN()));
}

namespace {
struct foreign_half {  // as `__half`, `Eigen::half`: two bytes, explicit both ways
  explicit foreign_half(float x) : bits{float16(x).bits()} {}
  explicit operator float() const { return float16::from_bits(bits); }
  std::uint16_t bits;
};
struct two_chars {
  char a, b;
};
enum class letter : std::uint16_t {};
struct opted_out {
  explicit opted_out(float);
  operator float() const;
  std::int16_t fixed_point;
};
struct fixed_point {  // an aggregate: conversion from float would initialise `raw`
  std::int16_t raw;
  operator float() const { return static_cast<float>(raw) / 256; }
};
}  // namespace
template <>
inline constexpr bool kolo::accumulate_in_float<opted_out> = false;

TEST_CASE("16-bit numbers are recognised by their operations") {
  STATIC_REQUIRE(kolo::accumulate_in_float<float16>);
  STATIC_REQUIRE(kolo::accumulate_in_float<bfloat16>);
  STATIC_REQUIRE(kolo::accumulate_in_float<foreign_half>);
#ifdef EIGEN_CORE_H
  STATIC_REQUIRE(kolo::accumulate_in_float<Eigen::half>);
  STATIC_REQUIRE(kolo::accumulate_in_float<Eigen::bfloat16>);
#endif
  STATIC_REQUIRE_FALSE(kolo::accumulate_in_float<std::int16_t>);
  STATIC_REQUIRE_FALSE(kolo::accumulate_in_float<char16_t>);
  STATIC_REQUIRE_FALSE(kolo::accumulate_in_float<letter>);
  STATIC_REQUIRE_FALSE(kolo::accumulate_in_float<float>);
  STATIC_REQUIRE_FALSE(kolo::accumulate_in_float<two_chars>);
  STATIC_REQUIRE_FALSE(kolo::accumulate_in_float<opted_out>);
  STATIC_REQUIRE_FALSE(kolo::accumulate_in_float<fixed_point>);
#ifdef __FLT16_MAX__
  STATIC_REQUIRE(kolo::accumulate_in_float<_Float16>);
#endif
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every built-in operator on every kind of number, compared bit for bit with other arithmetic.
#include <kolo/reduce/operators.hpp>
#include <kolo/train/predivide.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>
#include <kolo/view/float8.hpp>

#include <bitset>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "support/catch.hpp"

namespace {

using kolo::bfloat16;
using kolo::float16;

template <class T>
std::uint64_t bits_of(T x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x < 8 ? sizeof x : 8);
  return bits;
}

template <class T>
std::vector<T> interesting() {
  std::vector<T> values;
  using limits = std::numeric_limits<T>;
  if constexpr (std::is_integral_v<T>) {
    for (const T edge : {limits::min(), T{0}, limits::max()})
      for (int d = -3; d <= 3; ++d)
        values.push_back(static_cast<T>(static_cast<std::uint64_t>(edge) + static_cast<std::uint64_t>(d)));
    for (std::uint64_t x = 0x9e3779b97f4a7c15U, i = 0; i < 20; ++i, x *= 0xbf58476d1ce4e5b9U)
      values.push_back(static_cast<T>(x >> 3));
  } else {
    for (const T x : {T(0.0F),
                      T(-0.0F),
                      T(1.0F),
                      T(-1.0F),
                      T(1.5F),
                      T(-3.25F),
                      T(1e-3F),
                      T(7e4F),
                      limits::max(),
                      limits::lowest(),
                      limits::min(),
                      limits::denorm_min(),
                      T(-limits::denorm_min()),
                      limits::infinity(),
                      T(-limits::infinity()),
                      limits::quiet_NaN(),
                      limits::signaling_NaN(),
                      T(-limits::quiet_NaN()),
                      T(0.1F),
                      T(0.3F),
                      T(-123.456F)})
      values.push_back(x);
  }
  return values;
}

/// The number of pairs of interesting values for which f(a, b) is false.
template <class T, class F>
int failures(F f) {
  int wrong = 0;
  for (const T a : interesting<T>())
    for (const T b : interesting<T>()) wrong += !f(a, b);
  return wrong;
}

/// The result of an operator on elements of T, computed as the kernels do.
template <class T, class Op>
T apply(const Op& op, T a, T b) {
  using A = kolo::detail::reduce::accumulator_t<T, Op>;
  return static_cast<T>(static_cast<A>(op(static_cast<A>(a), static_cast<A>(b))));
}

/// Ordered like the numbers, -0 before +0. Not for NaN.
template <class T>
std::int64_t rank_of(T x) {
  const double wide = static_cast<double>(x);
  const auto bits = static_cast<std::int64_t>(bits_of(wide));
  return bits < 0 ? std::numeric_limits<std::int64_t>::min() - bits - 1 : bits;
}

}  // namespace

TEMPLATE_TEST_CASE("integers wrap around in their own type", "", std::int8_t, std::uint8_t, std::int16_t, std::uint16_t,
                   std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, char, char16_t, long, unsigned long long) {
  using T = TestType;
  const auto modulo = [](std::uint64_t x) { return static_cast<T>(x); };  // 2^64 is a multiple of every type's modulus
  const auto u = [](T x) { return static_cast<std::uint64_t>(x); };
  CHECK(failures<T>([&](T a, T b) { return kolo::sum(a, b) == modulo(u(a) + u(b)); }) == 0);
  CHECK(failures<T>([&](T a, T b) { return kolo::product(a, b) == modulo(u(a) * u(b)); }) == 0);
  CHECK(failures<T>([&](T a, T b) { return kolo::min(a, b) == (a <= b ? a : b); }) == 0);
  CHECK(failures<T>([&](T a, T b) { return kolo::max(a, b) == (a >= b ? a : b); }) == 0);
  CHECK(failures<T>([&](T a, T b) { return kolo::bit_and(a, b) == modulo(u(a) & u(b)); }) == 0);
  CHECK(failures<T>([&](T a, T b) { return kolo::bit_or(a, b) == modulo(u(a) | u(b)); }) == 0);
  CHECK(failures<T>([&](T a, T b) { return kolo::bit_xor(a, b) == modulo(u(a) ^ u(b)); }) == 0);
  STATIC_REQUIRE(std::is_same_v<decltype(kolo::sum(T{}, T{})), T>);
}

TEST_CASE("for bool, sum is or, and product is and") {
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      CHECK(kolo::sum(a, b) == (a || b));
      CHECK(kolo::product(a, b) == (a && b));
      CHECK(kolo::max(a, b) == (a || b));
      CHECK(kolo::bit_xor(a, b) == (a != b));
    }
}

TEMPLATE_TEST_CASE("sums and products are rounded once", "", float, bfloat16, float16) {
  using T = TestType;  // the sum and the product of two of these are exact in double, or rounded without effect
  const auto same = [](T x, double exact) {
    return std::isnan(exact) ? std::isnan(static_cast<double>(x)) : bits_of(x) == bits_of(T(static_cast<float>(exact)));
  };
  CHECK(failures<T>([&](T a, T b) {
          return same(apply(kolo::sum, a, b), static_cast<double>(a) + static_cast<double>(b));
        }) == 0);
  CHECK(failures<T>([&](T a, T b) {
          return same(apply(kolo::product, a, b), static_cast<double>(a) * static_cast<double>(b));
        }) == 0);
}

TEMPLATE_TEST_CASE("min and max commute bit for bit: the result is NaN if one is, and -0 is less than +0", "", float,
                   double, bfloat16, float16) {
  using T = TestType;
  const auto expected = [](T a, T b, bool smaller) {
    if (std::isnan(static_cast<double>(a)) || std::isnan(static_cast<double>(b)))
      return ~std::uint64_t{0} >> (64 - 8 * sizeof(T));
    return bits_of((rank_of(a) < rank_of(b)) == smaller ? a : b);
  };
  CHECK(failures<T>([&](T a, T b) { return bits_of(apply(kolo::min, a, b)) == expected(a, b, true); }) == 0);
  CHECK(failures<T>([&](T a, T b) { return bits_of(apply(kolo::max, a, b)) == expected(a, b, false); }) == 0);
  CHECK(failures<T>([&](T a, T b) { return bits_of(apply(kolo::min, a, b)) == bits_of(apply(kolo::min, b, a)); }) == 0);
  CHECK(failures<T>([&](T a, T b) { return bits_of(apply(kolo::max, a, b)) == bits_of(apply(kolo::max, b, a)); }) == 0);
}

TEST_CASE("min and max of long double follow the same rule") {
  const long double nan = std::numeric_limits<long double>::quiet_NaN();
  CHECK(std::isnan(kolo::min(nan, 1.0L)));
  CHECK(std::isnan(kolo::max(1.0L, nan)));
  CHECK(std::signbit(kolo::min(0.0L, -0.0L)));
  CHECK(std::signbit(kolo::min(-0.0L, 0.0L)));
  CHECK_FALSE(std::signbit(kolo::max(0.0L, -0.0L)));
  CHECK_FALSE(std::signbit(kolo::max(-0.0L, 0.0L)));
  CHECK(kolo::max(-2.0L, -3.0L) == -2.0L);
  CHECK(kolo::min(-2.0L, -3.0L) == -3.0L);
}

TEMPLATE_TEST_CASE("min and max of eight-bit numbers follow the same rule", "", kolo::fp8_e4m3, kolo::fp8_e5m2) {
  int wrong = 0;
  for (unsigned i = 0; i < 256; ++i)
    for (unsigned k = 0; k < 256; ++k) {
      const auto a = TestType::from_bits(static_cast<std::uint8_t>(i)),
                 b = TestType::from_bits(static_cast<std::uint8_t>(k));
      const bool nan = std::isnan(float{a}) || std::isnan(float{b});
      const bool first = nan || rank_of(float{a}) < rank_of(float{b});
      wrong += !nan && kolo::min(a, b).bits() != (first ? a : b).bits();
      wrong += !nan && kolo::max(a, b).bits() != (first ? b : a).bits();
      wrong += nan && (kolo::min(a, b).bits() != 0xff || kolo::max(a, b).bits() != 0xff);
    }
  CHECK(wrong == 0);
}

namespace {
template <class T, class Op>
int identity_failures(const Op& op) {
  using A = kolo::detail::reduce::accumulator_t<T, Op>;
  int wrong = 0;
  for (const T x : interesting<T>()) {
    if (x != x) continue;
    wrong += bits_of(apply(op, kolo::identity<Op, T>(), x)) != bits_of(x);
    wrong += bits_of(apply(op, x, kolo::identity<Op, T>())) != bits_of(x);
    wrong += static_cast<T>(kolo::identity<Op, A>()) != kolo::identity<Op, T>();
  }
  return wrong;
}
}  // namespace

TEMPLATE_TEST_CASE("an identity changes nothing, not even the sign of a zero", "", float, double, bfloat16, float16,
                   std::int8_t, std::uint16_t, std::int64_t) {
  CHECK(identity_failures<TestType>(kolo::sum) == 0);
  CHECK(identity_failures<TestType>(kolo::product) == 0);
  CHECK(identity_failures<TestType>(kolo::min) == 0);
  CHECK(identity_failures<TestType>(kolo::max) == 0);
  if constexpr (std::is_integral_v<TestType>) {
    CHECK(identity_failures<TestType>(kolo::bit_and) == 0);
    CHECK(identity_failures<TestType>(kolo::bit_or) == 0);
    CHECK(identity_failures<TestType>(kolo::bit_xor) == 0);
  }
}

namespace {
struct money {
  int cents;
};
struct vec3 {
  float x, y, z;
  friend constexpr vec3 operator+(vec3 a, vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
  friend constexpr vec3 operator/(vec3 a, float s) { return {a.x / s, a.y / s, a.z / s}; }
};
struct fixed_point {
  using value_type = int;
  int tenths;
  friend constexpr fixed_point operator+(fixed_point a, fixed_point b) { return {a.tenths + b.tenths}; }
  friend constexpr fixed_point operator/(fixed_point a, int n) { return {a.tenths / n}; }
};
struct backwards {
  static constexpr bool commutative = false;
  static constexpr bool exact = true;
  float operator()(float, float b) const { return b; }
};
struct final_operator final {
  float operator()(float a, float b) const { return a + b; }
};
struct not_const {
  float operator()(float a, float b) { return a + b; }
};
using function = float (*)(float, float);
struct cents {  // aggregates that convert to a number, and are not numbers
  long of_them;
  constexpr operator double() const { return static_cast<double>(of_them) / 100; }
  friend constexpr cents operator+(cents a, cents b) { return {a.of_them + b.of_them}; }
};
__extension__ using wide = __int128;  // std::integral with the compiler's extensions only
struct q8_8 {
  std::int16_t raw;
  constexpr operator float() const { return static_cast<float>(raw) / 256; }
  friend constexpr q8_8 operator+(q8_8 a, q8_8 b) { return {static_cast<std::int16_t>(a.raw + b.raw)}; }
};
}  // namespace

TEST_CASE("average is the sum, divided once by the number of ranks") {
  CHECK(kolo::average(1.0F, 2.5F) == 3.5F);
  CHECK(kolo::average.finish(3.0F, 4) == 0.75F);
  CHECK(bits_of(kolo::average.finish(1.0, 3)) == bits_of(1.0 / 3.0));
  CHECK(kolo::average.finish(std::complex<double>{3, 6}, 3) == std::complex<double>{1, 2});
  CHECK(kolo::average.finish(vec3{2, 4, 6}, 2).z == 3.0F);
  STATIC_REQUIRE(kolo::Finishes<kolo::average_t, float>);
  STATIC_REQUIRE_FALSE(kolo::Finishes<kolo::average_t, int>);
  STATIC_REQUIRE_FALSE(kolo::Finishes<kolo::sum_t, float>);
  STATIC_REQUIRE(std::is_same_v<kolo::detail::reduce::accumulator_t<bfloat16, kolo::average_t>, float>);
}

TEST_CASE("the declared properties of operators: commutative, exact, identity, finish") {
  STATIC_REQUIRE(kolo::is_commutative<kolo::sum_t>);
  STATIC_REQUIRE(kolo::is_commutative<final_operator>);  // an operator that declares nothing commutes
  STATIC_REQUIRE_FALSE(kolo::is_commutative<backwards>);
  STATIC_REQUIRE_FALSE(kolo::is_commutative<kolo::wired<bfloat16, backwards>>);
  STATIC_REQUIRE(kolo::is_exact<kolo::sum_t, int>);
  STATIC_REQUIRE(kolo::is_exact<kolo::max_t, float16>);
  STATIC_REQUIRE(kolo::is_exact<backwards, float>);
  STATIC_REQUIRE_FALSE(kolo::is_exact<kolo::sum_t, float>);
  STATIC_REQUIRE_FALSE(kolo::is_exact<kolo::max_t, money>);
  STATIC_REQUIRE_FALSE(kolo::is_exact<final_operator, float>);
  STATIC_REQUIRE(kolo::HasIdentity<kolo::min_t, float>);
  STATIC_REQUIRE_FALSE(kolo::HasIdentity<final_operator, float>);
  STATIC_REQUIRE(kolo::detail::reduce::finishes_alone<kolo::wired<bfloat16, final_operator>>);
  STATIC_REQUIRE_FALSE(kolo::detail::reduce::finishes_alone<kolo::wired<bfloat16, kolo::average_t>>);
  STATIC_REQUIRE_FALSE(
      kolo::detail::reduce::finishes_alone<decltype(kolo::wire<bfloat16>(kolo::predivide(kolo::sum, 8)))>);
}

TEST_CASE("callables are operators, and views are not") {
  const auto generic = [](auto a, auto b) { return a + b; };
  STATIC_REQUIRE(kolo::AnyOperator<decltype(generic)>);
  STATIC_REQUIRE(kolo::AnyOperator<const kolo::sum_t&>);
  STATIC_REQUIRE(kolo::AnyOperator<final_operator>);
  STATIC_REQUIRE(kolo::AnyOperator<function>);
  STATIC_REQUIRE_FALSE(kolo::AnyOperator<int>);
  STATIC_REQUIRE_FALSE(kolo::AnyOperator<int*>);
  STATIC_REQUIRE_FALSE(kolo::AnyOperator<money>);
  STATIC_REQUIRE_FALSE(kolo::AnyOperator<std::vector<float>&>);
  STATIC_REQUIRE_FALSE(kolo::AnyOperator<float(&)[3]>);
}

TEST_CASE("an operator accepts elements if it combines two of them, or two of their accumulators") {
  const auto generic = [](auto a, auto b) { return a + b; };
  const auto in_bfloat16 = [](bfloat16 a, bfloat16 b) { return bfloat16(a + b); };
  STATIC_REQUIRE(kolo::operator_accepts<decltype(generic), bfloat16>);
  STATIC_REQUIRE(std::is_same_v<kolo::detail::reduce::accumulator_t<bfloat16, decltype(generic)>, float>);
  STATIC_REQUIRE(kolo::operator_accepts<decltype(in_bfloat16), bfloat16>);
  STATIC_REQUIRE(std::is_same_v<kolo::detail::reduce::accumulator_t<bfloat16, decltype(in_bfloat16)>, bfloat16>);
  STATIC_REQUIRE(kolo::operator_accepts<kolo::sum_t, std::complex<float>>);
  STATIC_REQUIRE(kolo::operator_accepts<kolo::sum_t, vec3>);
  STATIC_REQUIRE(kolo::operator_accepts<kolo::average_t, vec3>);
  STATIC_REQUIRE(kolo::operator_accepts<kolo::average_t, fixed_point>);
  CHECK(kolo::average.finish(fixed_point{60}, 3).tenths == 20);
  STATIC_REQUIRE(kolo::operator_accepts<kolo::bit_xor_t, std::bitset<64>>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::sum_t, money>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::average_t, std::complex<int>>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::min_t, vec3>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::bit_and_t, float>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::bit_or_t, bfloat16>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::average_t, int>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::average_t, bool>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::average_t, wide>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<not_const, float>);
}

TEST_CASE("an aggregate that converts to a number is not treated as one") {
  STATIC_REQUIRE(std::is_same_v<kolo::detail::reduce::accumulator_t<q8_8, kolo::sum_t>, q8_8>);
  CHECK(float{apply(kolo::sum, q8_8{384}, q8_8{384})} == 3.0F);
  STATIC_REQUIRE(kolo::operator_accepts<kolo::sum_t, cents>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::average_t, cents>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::average_t, q8_8>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::wired<q8_8, kolo::sum_t>, float>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::wired<float, kolo::sum_t>, cents>);
  STATIC_REQUIRE(kolo::operator_accepts<kolo::average_t, std::complex<double>>);
}

TEST_CASE("a narrower wire type is part of the operator") {
  constexpr auto averaging = kolo::wire<bfloat16>(kolo::average);
  using op = std::remove_const_t<decltype(averaging)>;
  STATIC_REQUIRE(std::is_same_v<kolo::detail::reduce::wire_element_t<op, float>, bfloat16>);
  STATIC_REQUIRE(std::is_same_v<kolo::detail::reduce::wire_element_t<kolo::sum_t, float>, float>);
  STATIC_REQUIRE(averaging(1.0F, 2.0F) == 3.0F);
  STATIC_REQUIRE(averaging.finish(3.0F, 2) == 1.5F);
  STATIC_REQUIRE(kolo::operator_accepts<op, float>);
  STATIC_REQUIRE(kolo::operator_accepts<op, double>);
  STATIC_REQUIRE(kolo::operator_accepts<op, bfloat16>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<op, int>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::wired<double, kolo::sum_t>, float>);
  STATIC_REQUIRE_FALSE(kolo::operator_accepts<kolo::wired<std::int8_t, kolo::sum_t>, float>);
  STATIC_REQUIRE(kolo::operator_accepts<kolo::wired<std::int16_t, kolo::sum_t>, int>);
}

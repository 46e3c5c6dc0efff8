// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Groups of small numbers with a scale: the error of each element, and that narrowing again changes nothing.
#include <kolo/reduce/scaled.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>

#include "support/catch.hpp"

namespace {

template <class Code>
struct of_code {
  using wire = kolo::scaled<Code, 32>;
  using group = typename wire::elements;

  static group again(const group& x) { return static_cast<group>(wire{x}); }

  /// `relative`: to the element itself; `of_greatest`: to the greatest of its group.
  static void check_errors(float relative, float of_greatest) {
    std::uint32_t state = 1;
    const auto random = [&] { return state = state * 1664525U + 1013904223U, state ^ (state >> 15); };
    int wrong = 0;
    for (int k = 0; k < 20'000; ++k) {
      group x;
      const int exponent = static_cast<int>(random() % 200) - 100, spread = 1 + static_cast<int>(random() % 20);
      float greatest = 0;
      for (float& e : x.x) {
        e = std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())), exponent - 31);
        e = std::ldexp(e, -static_cast<int>(random() % static_cast<unsigned>(spread)));
        greatest = std::max(greatest, std::fabs(e));
      }
      const group once = again(x), twice = again(once);
      wrong += std::memcmp(once.x, twice.x, sizeof once.x) != 0;
      for (int i = 0; i < 32; ++i)
        wrong += !(std::fabs(once.x[i] - x.x[i]) <= std::fabs(x.x[i]) * relative + greatest * of_greatest);
    }
    CHECK(wrong == 0);
  }

  static void check_ends() {
    STATIC_REQUIRE(sizeof(wire) == 34);
    group x{};
    CHECK(again(x).x[5] == 0);
    for (const float strange : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF, -HUGE_VALF}) {
      x = {};
      x.x[31] = strange;
      for (const float e : again(x).x) CHECK(std::isnan(e));
    }
    for (float& e : x.x) e = 0x1p-130F;
    for (const float e : again(x).x) CHECK(e == 0);
    for (float& e : x.x) e = -std::numeric_limits<float>::max();
    for (const float e : again(x).x) CHECK(std::isfinite(e));
  }
};

}  // namespace

TEST_CASE("the error of a group with a scale is bounded, and narrowing it again changes nothing") {
  of_code<std::int8_t>::check_errors(0, 1.02F / 250);
  of_code<kolo::fp8_e4m3>::check_errors(1.0F / 16, 1.0F / 200'000);
  of_code<kolo::fp8_e5m2>::check_errors(1.0F / 8, 1e-9F);
  of_code<std::int8_t>::check_ends();
  of_code<kolo::fp8_e4m3>::check_ends();
  of_code<kolo::fp8_e5m2>::check_ends();
}

TEST_CASE("an operator on groups applies to each element") {
  using group = kolo::detail::reduce::group<float, 4>;
  constexpr kolo::detail::reduce::of_groups<kolo::average_t> each{kolo::average};
  constexpr group both = each(group{{1, 2, 3, 4}}, group{{5, 6, 7, 9}}), mean = each.finish(both, 2);
  STATIC_REQUIRE(mean.x[0] == 3);
  STATIC_REQUIRE(mean.x[3] == 6.5F);
}

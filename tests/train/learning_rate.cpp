// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The learning rates that published training runs print, digit for digit.
#include <kolo/train/learning_rate.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace {

std::string printed(float rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5f", static_cast<double>(rate));
  return text;
}

}  // namespace

TEST_CASE("polynomial decay has the printed rates of the synthetic run on 4 GPUs") {
  const kolo::polynomial_decay rate{6.4f, 1e-5f, 1000};
  CHECK(printed(rate(0)) == "6.40000");
  CHECK(printed(rate(1)) == "6.38721");
  CHECK(printed(rate(100)) == "5.18400");
  CHECK(printed(rate(200)) == "4.09600");
  CHECK(printed(rate(300)) == "3.13600");
  CHECK(printed(rate(400)) == "2.30401");
}

TEST_CASE("warm-up and polynomial decay have the printed rates of the ImageNet run on 32 GPUs") {
  const kolo::warm_up rate{0.001f, 1560, kolo::polynomial_decay{0.1f * 32, 1e-5f, 14075 - 1560}};
  CHECK(printed(rate(0)) == "0.00100");
  CHECK(printed(rate(1)) == "0.00305");
  CHECK(printed(rate(50)) == "0.10353");
  CHECK(printed(rate(1050)) == "2.15417");
  CHECK(printed(rate(13750)) == "0.00217");
  CHECK(printed(rate(13900)) == "0.00064");
  CHECK(printed(rate(13950)) == "0.00033");
  CHECK(printed(rate(14000)) == "0.00012");
  CHECK(printed(rate(14050)) == "0.00002");
}

TEST_CASE("rates are constant expressions, and have no jump between warm-up and decay") {
  constexpr kolo::warm_up rate{0.5f, 10, kolo::step_decay{4.0f, 0.5f, 5}};
  STATIC_REQUIRE(rate(0) == 0.5f);
  STATIC_REQUIRE(rate(10) == 4.0f);
  STATIC_REQUIRE(rate(14) == 4.0f);
  STATIC_REQUIRE(rate(15) == 2.0f);
  STATIC_REQUIRE(rate(20) == 1.0f);
  STATIC_REQUIRE(rate(9) < rate(10));
}

TEST_CASE("polynomial decay stays at its end value") {
  constexpr kolo::polynomial_decay rate{1.0f, 0.25f, 100, 1};
  STATIC_REQUIRE(rate(50) == 0.625f);
  STATIC_REQUIRE(rate(100) == 0.25f);
  STATIC_REQUIRE(rate(1'000'000) == 0.25f);
}

TEST_CASE("a warm-up of 0 steps has no effect, and any callable is a rate") {
  constexpr kolo::warm_up rate{9.0f, 0, [](int step) { return float(step); }};
  STATIC_REQUIRE(rate(0) == 0.0f);
  STATIC_REQUIRE(rate(3) == 3.0f);
}

TEST_CASE("schedules of 0 steps are over at once, and what has no meaning is refused") {
  STATIC_REQUIRE(kolo::polynomial_decay{1.0f, 0.25f, 0}(0) == 0.25f);
  const auto refused = [](const auto& rate) {
    try {
      return rate(3) < 0;
    } catch (const kolo::error& e) {
      return e.code() == kolo::errc::invalid_argument;
    }
  };
  CHECK(refused(kolo::step_decay{.from = 1, .every = 0}));
  CHECK(refused(kolo::step_decay{.from = 1, .every = -2}));
  CHECK(refused(kolo::polynomial_decay{.from = 1, .steps = -1}));
  CHECK(refused(kolo::polynomial_decay{.from = 1, .steps = 9, .power = 0}));
  CHECK(refused(kolo::warm_up{0.0f, -1, kolo::step_decay{1}}));
  CHECK_FALSE(refused(kolo::warm_up{0.0f, 0, kolo::step_decay{1}}));
  CHECK(std::isnan(kolo::by_size(std::numeric_limits<float>::quiet_NaN(), 2)));
}

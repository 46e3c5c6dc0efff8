// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tsc_clock shows the time of steady_clock.
#include <kolo/os/tsc_clock.hpp>

#include <algorithm>

#include "support/catch.hpp"

namespace {
std::int64_t asked() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
}  // namespace

TEST_CASE("tsc_clock differs from steady_clock by less than 100 us") {
  kolo::detail::os::tsc_clock quick;
  const auto begin = asked();
  std::int64_t furthest = 0;
  for (auto before = begin; before < begin + 50'000'000;) {
    const auto time = quick.now(), after = asked();
    furthest = std::max({furthest, before - time, time - after});
    before = after;
  }
  CHECK(furthest < 100'000);
}

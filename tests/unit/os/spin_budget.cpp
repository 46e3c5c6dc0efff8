// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// spin_budget: a wait yields at once if its peer shares its core, and polls long again once it does not.
#include <kolo/os/spin_budget.hpp>

#include "support/catch.hpp"

using kolo::detail::os::spin_budget;

namespace {

/// A wait that ends after `fruitless` polls, or, if `after_yielding` is positive, that many polls after it began to yield. Returns the polls before it yields.
int wait(spin_budget& b, int fruitless, int after_yielding = 0) {
  const int looks = b.begin();
  b.polled((after_yielding > 0 ? looks + after_yielding : fruitless) -
           1);  // each poll overwrites the number of the one before
  return looks;
}
int waits_with_few_looks(spin_budget& b, int waits, int fruitless, int after_yielding = 0) {
  int n = 0;
  for (int i = 0; i < waits; ++i) n += wait(b, fruitless, after_yielding) == 1;
  return n;
}

}  // namespace

TEST_CASE("waits that end before they yield, or after they sleep, continue to poll long") {
  for (const int fruitless : {1, 100, spin_budget::most, spin_budget::most + spin_budget::yields + 1, 10'000}) {
    INFO(fruitless << " fruitless polls");
    spin_budget b;
    CHECK(waits_with_few_looks(b, 100'000, fruitless) == 0);
  }
}

TEST_CASE("after enough waits that end only when they yield, a wait polls once, and one in 256 polls long") {
  spin_budget b;
  CHECK(waits_with_few_looks(b, 1000, 0, 2) == 0);
  waits_with_few_looks(b, 20'000, 0, 2);
  CHECK(waits_with_few_looks(b, 2560, 0, 2) == 2550);

  SECTION("until long polling succeeds") {
    CHECK(waits_with_few_looks(b, 10 * 256, 3) < 10 * 256);
    CHECK(waits_with_few_looks(b, 1000, 3) == 0);
  }
}

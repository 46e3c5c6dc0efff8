// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whose peer shares its core learns to yield at once, and unlearns it.
#include <kolo/os/spin_budget.hpp>

#include "support/catch.hpp"

using kolo::detail::os::spin_budget;

namespace {

/// A wait that ends after so many fruitless looks, or, where it yields at all, after so many more: how often might it look before it yields?
int wait(spin_budget& b, int fruitless, int after_yielding = 0) {
  const int looks = b.begin();
  b.polled((after_yielding > 0 ? looks + after_yielding : fruitless) -
           1);  // each look overwrites what the one before has said
  return looks;
}
int waits_with_few_looks(spin_budget& b, int waits, int fruitless, int after_yielding = 0) {
  int n = 0;
  for (int i = 0; i < waits; ++i) n += wait(b, fruitless, after_yielding) == 1;
  return n;
}

}  // namespace

TEST_CASE("who finds what it awaits, or sleeps for it, goes on looking long") {
  for (const int fruitless : {1, 100, spin_budget::most, spin_budget::most + spin_budget::yields + 1, 10'000}) {
    INFO(fruitless << " fruitless looks");
    spin_budget b;
    CHECK(waits_with_few_looks(b, 100'000, fruitless) == 0);
  }
}

TEST_CASE("who finds it only when it yields gives its core away at once, in the end, and looks long now and then") {
  spin_budget b;
  CHECK(waits_with_few_looks(b, 1000, 0, 2) == 0);
  waits_with_few_looks(b, 20'000, 0, 2);
  CHECK(waits_with_few_looks(b, 2560, 0, 2) == 2550);

  SECTION("until those long looks find it") {
    CHECK(waits_with_few_looks(b, 10 * 256, 3) < 10 * 256);
    CHECK(waits_with_few_looks(b, 1000, 3) == 0);
  }
}

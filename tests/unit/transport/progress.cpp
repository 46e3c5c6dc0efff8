// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of one thread, taken over by another.
#include <kolo/transport/progress.hpp>

#include "support/catch.hpp"
#include "support/taken_over.hpp"

TEST_CASE("a thread that takes operations over waits until the thread that drives them has stopped") {
  CHECK(is_taken_over_between(100));
}

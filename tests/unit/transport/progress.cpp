// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a thread has started, while another thread takes it over.
#include <kolo/transport/progress.hpp>

#include "support/catch.hpp"
#include "support/taken_over.hpp"

TEST_CASE("who takes operations over waits until the thread that drives them has stopped") {
  CHECK(is_taken_over_between(100));
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank stopped in the middle of a piece writes to no buffer that its owner uses again, and accepts no changed data; or the buffer is reported as in use.
#include "processes/stopped_in_a_piece.hpp"
#include "support/catch.hpp"

using namespace testing;

TEST_CASE("a rank that continues in the middle of a piece does not write to heap memory") {
  CHECK(heap_is_not_written() == "");
}

TEST_CASE("symmetric memory is reported as in use until the stopped rank continues") {
  CHECK(symmetric_memory_is_said_to_be_in_use() == "");
}

TEST_CASE("a rank that continues in the middle of a piece does not accept data that has changed") {
  CHECK(changed_operands_are_noticed() == "");
}

TEST_CASE("a failed call waits for a thread in the middle of a piece") { CHECK(threads_are_waited_for() == ""); }

TEST_CASE("a rank that fails releases the pieces that it has claimed") { CHECK(who_fails_lets_go() == ""); }

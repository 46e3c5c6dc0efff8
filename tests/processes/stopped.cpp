// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank that is stopped in the middle of a piece writes to no buffer that is its owner's again, and takes nothing for right that has changed; or it is known.
#include "processes/stopped_in_a_piece.hpp"
#include "support/catch.hpp"

using namespace testing;

TEST_CASE("memory of the heap is not written by a rank that wakes up in the middle of a piece") {
  CHECK(heap_is_not_written() == "");
}

TEST_CASE("of symmetric memory the error says that it is in use, until the rank has gone on") {
  CHECK(symmetric_memory_is_said_to_be_in_use() == "");
}

TEST_CASE("a rank that wakes up in the middle of a piece does not take for right what it reads") {
  CHECK(changed_operands_are_noticed() == "");
}

TEST_CASE("a thread in the middle of a piece is waited for") { CHECK(threads_are_waited_for() == ""); }

TEST_CASE("a rank that has taken pieces and fails lets go of them") { CHECK(who_fails_lets_go() == ""); }

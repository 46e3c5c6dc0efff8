// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective, by every algorithm, between devices of one process: runs tests/collectives.
#include "cuda/every_collective.hpp"
#include "cuda/threads_ranks.hpp"

using namespace testing;

TEST_CASE("device threads: collectives that reduce") { what_combines<over_devices>(); }
TEST_CASE("device threads: collectives that move elements") { what_moves<over_devices>(); }
TEST_CASE("device threads: send, receive and exchange") { what_is_between_two<over_devices>(); }

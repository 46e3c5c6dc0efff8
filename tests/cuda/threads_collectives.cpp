// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective, by every algorithm, between devices of one process: the same tests as on the host.
#include "cuda/every_collective.hpp"
#include "cuda/threads_ranks.hpp"

using namespace testing;

TEST_CASE("device threads: what combines") { what_combines<over_devices>(); }
TEST_CASE("device threads: what moves") { what_moves<over_devices>(); }
TEST_CASE("device threads: what is between two") { what_is_between_two<over_devices>(); }

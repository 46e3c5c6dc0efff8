// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective, by every algorithm, over the fake NCCL: runs tests/collectives.
#include "cuda/every_collective.hpp"
#include "cuda/nccl_ranks.hpp"

using namespace testing;

TEST_CASE("nccl: collectives that reduce") { what_combines<over_nccl>(); }
TEST_CASE("nccl: collectives that move elements") { what_moves<over_nccl>(); }
TEST_CASE("nccl: send, receive and exchange") { what_is_between_two<over_nccl>(); }

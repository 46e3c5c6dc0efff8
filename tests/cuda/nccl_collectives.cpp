// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective, by every algorithm, over the double of NCCL: the same tests as on the host.
#include "cuda/every_collective.hpp"
#include "cuda/nccl_ranks.hpp"

using namespace testing;

TEST_CASE("nccl: what combines") { what_combines<over_nccl>(); }
TEST_CASE("nccl: what moves") { what_moves<over_nccl>(); }
TEST_CASE("nccl: what is between two") { what_is_between_two<over_nccl>(); }

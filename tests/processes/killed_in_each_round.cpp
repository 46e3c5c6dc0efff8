// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kill -9 in each round of several algorithms, and at each step of those that run as one stream.
#include "processes/in_each_round.hpp"

using namespace testing;

TEST_CASE("a rank is killed in each round of its call") {
  in_each_round("ring allreduce", kolo::ring::allreduce{});
  in_each_round("recursive_doubling allreduce", kolo::recursive_doubling::allreduce{});
  in_each_round("binomial broadcast", kolo::binomial::broadcast{});
  in_each_round("bruck alltoall", kolo::bruck::alltoall{});
  in_each_round("dissemination barrier", kolo::dissemination::barrier{});
  in_each_round("shift", kolo::shifted<1>{});
}

TEST_CASE("a rank is killed at each step of a call that runs as one stream") {
  at_each_step("one_shot allreduce", kolo::one_shot::allreduce{});
  at_each_step("two_shot allreduce", kolo::two_shot::allreduce{});
  at_each_step("ring allgather", kolo::ring::allgather{});
  at_each_step("shift", kolo::shifted_by{-1});
}

TEST_CASE("a rank is killed before it writes its board, and before it acknowledges a read") {
  at_each_step("one_shot allreduce", kolo::one_shot::allreduce{}, {5}, 2);
  at_each_step("one_shot broadcast", kolo::one_shot::broadcast{}, {5}, 1);
}

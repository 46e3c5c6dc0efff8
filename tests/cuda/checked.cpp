// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checked mode for device views, on the fake CUDA and NCCL: ranks compare their calls on the host before they enqueue them.
#include "cuda/nccl_ranks.hpp"
#include "cuda/on_double.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

/// The first call is the same on all three ranks, the second one differs on rank 2. Returns this rank's error.
template <class C>
std::string told(C& comm) {
  const kolo::cuda::stream s;
  tensor<float> x{of_rank(comm.rank(), 10), s}, y{of_rank(comm.rank(), 11), s};
  kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});
  const bool is_sum = x.values() == summed(3, 10);
  const auto words =
      words_of([&] { kolo::allreduce(comm, comm.rank() == 2 ? y.view() : x.view(), kolo::sum, {.stream = s}); });
  return is_sum ? words : "another sum; " + words;
}

template <class Run>
void all_are_told(Run run) {
  cuda_double::the.takes_all_memory = false;
  std::vector<std::string> said(3);
  ::setenv("KOLO_CHECKED", "1", 1);
  run([&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = told(comm); });
  ::unsetenv("KOLO_CHECKED");
  INFO(said[0]);
  CHECK(said[0].starts_with(
      "kolo: allreduce #2, rank 0: the count differs: rank 0 calls allreduce of 10 float, sum, at checked.cpp:"));
  CHECK(said[0].find("; rank 2 calls allreduce of 11 float, sum, at checked.cpp:") != std::string::npos);
  CHECK(said == all_say(3, said[0]));
}

}  // namespace

TEST_CASE("checked device messages, staged: every rank gets the mismatch") {
  all_are_told(
      [](auto f) { run_device_threads<device_transport>(3, kolo::cuda::route::staged, f, impatient(usual_slot)); });
}
TEST_CASE("checked nccl: every rank gets the mismatch") {
  all_are_told([](auto f) { run_nccl_threads<kolo::nccl::transport>(3, f); });
}

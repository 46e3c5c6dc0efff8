// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes between processes that open each other's device memory, on the fake CUDA runtime.
// built with others: devices
#include "cuda/shm_ranks.hpp"

#include <sys/resource.h>

using namespace testing;

namespace {

int faults = 0;

/// Runs f with a short timeout.
template <class F>
void on_devices(int p, F f, const std::string& expected = "") {
  const auto end = on_device_processes(p,
                                       [&](auto& comm, complaints& wrong) {
                                         const kolo::cuda::stream s;
                                         f(comm, wrong, s);
                                       },
                                       usual_slot, {.timeout = std::chrono::seconds{5}});
  for (const auto& said : end.said) {
    if (said.find(expected) != std::string::npos && said.empty() == expected.empty()) continue;
    std::fprintf(stderr, "%s\n%s\n", said.c_str(), end.errors.c_str());
    ++faults;
  }
}

/// Memory that is kept open, freed and allocated again, in one call each, so that no slot is used twice.
void other_memory(complaints& wrong, auto& comm, cudaStream_t s) {
  for (int k = 0; k < 3; ++k) {
    const tensor<float> before{of_rank(0, 10), s};
    tensor<float> x{of_rank(comm.rank() + k, 100), s};
    kolo::allreduce(comm, x.view().subspan(20, 50), kolo::sum, kolo::native{}, {.stream = s});
    auto expected = of_rank(comm.rank() + k, 100);
    for (std::size_t i = 20; i < 70; ++i) expected[i] = of_rank(0, 100)[i] * static_cast<float>(2 * k + 3);
    expect_same(wrong, "sum", comm.rank(), x.values(), expected);
  }
  wrong.expect(cuda_double::the.windows.size() <= 2,
               "open allocations: " + std::to_string(cuda_double::the.windows.size()));
}

}  // namespace

int main() {
  const ::rlimit of_each{2, 2};  // seconds of a processor for each process: without an end of its stream it polls
  ::setrlimit(RLIMIT_CPU, &of_each);
  meeting_point all{3};
  on_devices(3, [&](auto& comm, complaints& wrong, cudaStream_t s) {
    for (const bool fused : {false, true}) overwrites_at_once(comm, wrong, s, all, fused);
  });
  on_devices(2, [](auto& comm, complaints& wrong, cudaStream_t s) { other_memory(wrong, comm, s); });
  meeting_point two{2};
  on_devices(2, [&](auto& comm, complaints& wrong, cudaStream_t s) {
    tensor<float> x{of_rank(comm.rank(), 100), s};
    {
      auto part = comm.split(0, comm.rank());
      kolo::allreduce(part, x.view(), kolo::sum, kolo::one_shot{}, {.stream = s});
    }  // the work on the stream is still pending
    two.arrive_and_wait();
    expect_same(wrong, "sum", comm.rank(), x.values(), summed(2, 100));
  });
  on_devices(
      2,
      [](auto& comm, complaints& wrong, cudaStream_t s) {
        tensor<float> x{of_rank(comm.rank(), 10), s};
        cuda_double::the.memory.at(reinterpret_cast<std::byte*>(x.data())).is_of_a_pool = true;
        wrong.say(words_of([&] { kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s}); }));
        cuda_double::the.memory.at(reinterpret_cast<std::byte*>(x.data())).is_of_a_pool = false;
      },
      "cannot be shown to other processes");
  const auto expect_nothing = [](const testing::launch_result& end) {
    for (const auto& said : end.said)
      if (!said.empty()) std::fputs(said.c_str(), stderr), ++faults;
  };
  for (const bool fused : {false, true}) expect_nothing(withdrawn_after_a_failure(fused));
  expect_nothing(stopped_while_it_opens(false));
  expect_nothing(opens_while_its_stream_stands(2, true, std::chrono::milliseconds{50}));
  cuda_double::the.devices = 2;
  cuda_double::the.devices_are_apart = true;
  on_devices(
      2, [](auto&, complaints&, cudaStream_t) {}, "rank 0 cannot use the device of rank 1");
  return faults == 0 ? 0 : 1;
}

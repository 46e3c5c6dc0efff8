// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes between ranks that access each other's device memory, on the fake CUDA runtime.
// built with others: devices
#include "cuda/threads_ranks.hpp"

using namespace testing;

namespace {

/// Runs f with a short timeout.
void on_devices(complaints& wrong, int p, auto f) {
  try {
    run_on_devices<kolo::cuda::threads_transport>(p,
                                                  [&](auto& comm) {
                                                    const kolo::cuda::stream s;
                                                    f(comm, s);
                                                  },
                                                  usual_slot, {.timeout = std::chrono::seconds{5}});
  } catch (const std::exception& e) {
    wrong.say(e.what());
  }
}

void different_operators(complaints& wrong) {
  run_on_devices<kolo::cuda::threads_transport>(2, [&](auto& comm) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 10), s};
    const auto words = words_of([&] {
      if (comm.rank() == 0) kolo::allreduce(comm, x.view(), kolo::sum, kolo::one_shot{}, {.stream = s});
      else kolo::allreduce(comm, x.view(), kolo::max, kolo::one_shot{}, {.stream = s});
    });
    wrong.expect(words.find("does something else") != std::string::npos, "expected a mismatch, not: " + words);
  });
}

void asks_once(complaints& wrong) {
  on_devices(wrong, 2, [&](auto& comm, cudaStream_t s) {
    tensor<float> x{of_rank(0, 100), s};
    const auto call = [&] {
      kolo::allreduce(comm, x.view(), kolo::max, {.stream = s});
      kolo::barrier(comm, kolo::one_shot{}, {.stream = s});
    };
    call();
    const int questions = cuda_double::the.questions;
    kolo::barrier(comm, kolo::one_shot{}, {.stream = s});
    call();
    wrong.expect(questions == cuda_double::the.questions, "peer access was queried again");
  });
  cuda_double::the.devices_are_apart = true;
  on_devices(wrong, 2, [&](auto& comm, cudaStream_t s) {
    tensor<float> x{of_rank(0, 100), s};
    kolo::allreduce(comm, x.view(), kolo::max, {.stream = s});
  });
  cuda_double::the.devices_are_apart = false;
}

}  // namespace

int main() {
  complaints wrong;
  std::barrier all{3};
  on_devices(wrong, 3, [&](auto& comm, cudaStream_t s) {
    for (const bool fused : {false, true}) overwrites_at_once(comm, wrong, s, all, fused);
    ends_with_the_last_answer(comm, wrong, s, all);
  });
  cuda_double::the.devices = 2;
  on_devices(wrong, 4, [&](auto& comm, cudaStream_t s) { fused_is_two_shot<float>(comm, wrong, s, kolo::sum, "sum"); });
  asks_once(wrong);
  cuda_double::the.devices = 1;
  for (const bool fused : {false, true}) is_not_touched_after_a_failure(wrong, fused);
  different_operators(wrong);
  std::fputs(wrong.text().c_str(), stderr);
  return wrong.text().empty() ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in plans that are one kernel on each device, on the fake CUDA runtime and on fake kernels whose blocks wait for each other.
// built with others: devices
#include "cuda/one_kernel_calls.hpp"
#include "fake_cuda/together.hpp"

using namespace testing;

int main() {
  complaints wrong;
  for (const int devices : {1, 2}) {
    cuda_double::the.devices = devices;
    try {
      run_with_one_kernel(3,
                          [&](auto& host, auto& comm) {
                            planned_allreduce(host, comm, wrong, 101, kolo::ring{}, kolo::recursive_doubling{});
                            planned_broadcast(host, comm, wrong, 101, kolo::chain{.segments = 3});
                          },
                          usual_slot, {.timeout = std::chrono::seconds{5}});
    } catch (const std::exception& e) {
      wrong.say(e.what());
    }
  }
  std::fputs(wrong.text().c_str(), stderr);
  return wrong.text().empty() ? 0 : 1;
}

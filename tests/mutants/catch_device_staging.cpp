// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in device vectors reduced on the host: two ranks, vectors of several pieces, two reductions in sequence on two streams.
// built with others: devices
#include "cuda/ranks.hpp"
#include "fake_cuda/runtime.hpp"

#include <kolo/cuda/host_reduction.hpp>

using namespace testing;

int main() {
  complaints wrong;
  try {
    kolo::threads::run(
        2,
        [&](auto& comm) {
          const kolo::cuda::stream s, other;
          const int r = comm.rank();
          kolo::cuda::host_reduction by_host{comm, 4096};
          tensor<float> x{of_rank(r, 3500), s}, y{of_rank(r, 3500), other};
          by_host.allreduce(x.view(), kolo::sum, {.stream = s});
          by_host.allreduce(y.view(), kolo::max, {.stream = other});
          expect_same(wrong, "the second reduction", r, y.values(), of_rank(1, 3500));
          expect_same(wrong, "the first reduction", r, x.values(), summed(2, 3500));
        },
        impatient(usual_slot));
  } catch (const std::exception& e) {
    wrong.say(e.what());
  }
  std::fputs(wrong.text().c_str(), stderr);
  return wrong.text().empty() ? 0 : 1;
}

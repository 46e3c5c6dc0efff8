// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predictions for a described cluster: the time of a schedule, the cost of a slow rank, and a program in virtual time.
#include "expect.hpp"

#include <kolo/kolo.hpp>
#include <kolo/simulate.hpp>
#include <kolo/simulate/simulated.hpp>

#include <cstdio>
#include <vector>

int main() {
  kolo::simulate::network cluster{.latency = 2e-6, .seconds_per_byte = 1e-10, .seconds_per_byte_reduced = 2e-11};
  const auto seconds = [&] { return kolo::simulate::run(kolo::ring::allreduce{}, 16, 1 << 20, cluster); };
  const double even = seconds();
  const kolo::simulate::straggler slow[] = {{.rank = 3, .factor = 20}};
  cluster.stragglers = slow;
  std::printf("ring, 16 ranks, 1 MiB: %.0f us; with one rank that is slow %.0f us\n", even * 1e6, seconds() * 1e6);
  expect(seconds() > even, "one slow rank delays all");

  cluster.stragglers = {};
  const kolo::virtual_time::times took = kolo::virtual_time::run(16, cluster, [](auto& comm) {
    std::vector<float> x(1 << 18, 1);
    kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
  });
  expect(took.seconds >= even, "a program takes at least as long as its schedule");
  std::puts("A program in virtual time takes at least the predicted time of its schedule.");
}

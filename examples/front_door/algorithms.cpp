// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ways to run a collective: with a chosen algorithm, with options, nonblocking, as a plan that runs repeatedly.
#include "expect.hpp"

#include <kolo/kolo.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <vector>

void the_block(auto& comm) {
  std::vector<double> x(1000, 1);
  // clang-format off
using namespace std::chrono_literals;
kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
kolo::allreduce(comm, x, kolo::sum, kolo::recursive_doubling{}, {.timeout = 5s});
kolo::broadcast(comm, x, 0, kolo::chain{.segments = 64});
auto request = kolo::start_allreduce(comm, x, kolo::sum);       // every collective has its start_...; test(), wait()
auto plan = kolo::plan_allreduce(comm, x, kolo::sum);           // plan.run() again and again: only the first one allocates
  // clang-format on

  request.wait();
  for (int i = 0; i < 3; ++i) plan.run();
  for (double value : x) expect(value == 4096, "1 was multiplied by four in six sums");
}

/// Started operations progress while one of them is tested or waited for, and complete in the order of their start.
void several_at_once(auto& comm) {
  std::vector<float> a(5000, 1), b(300, 2);
  std::vector<int> in{comm.rank()}, all(std::size_t(comm.size()));
  auto first = kolo::start_allreduce(comm, a, kolo::sum, kolo::ring{});
  auto second = kolo::start_broadcast(comm, b, 0);
  auto third = kolo::start_allgather(comm, in, all);
  int looks = 1;
  while (!third.test()) ++looks;  // a program would compute here
  expect(first.test() && second.test(), "operations complete in the order of their start");
  expect(a[0] == 4 && all[3] == 3 && looks > 0, "each gave its result");
}

/// Every collective can be started and planned.
void every_one(auto& comm) {
  const std::size_t p = std::size_t(comm.size());
  const auto op = kolo::sum;
  const int root = 3;
  std::vector<int> x(8, 1), in(8, 1), whole(8 * p, 1), out(8), block(2), all(8 * p), all_to_all(8);
  kolo::start_allreduce(comm, x, op).wait();
  kolo::start_reduce_scatter(comm, in, block, op).wait();
  kolo::start_allgather(comm, in, all).wait();
  kolo::start_broadcast(comm, x, root).wait();
  kolo::start_reduce(comm, in, out, op, root).wait();
  kolo::start_gather(comm, in, all, root).wait();
  kolo::start_scatter(comm, whole, out, root).wait();
  kolo::start_alltoall(comm, in, all_to_all).wait();
  kolo::start_scan(comm, in, out, op).wait();
  kolo::start_exclusive_scan(comm, in, out, op).wait();
  kolo::start_barrier(comm).wait();
  expect(x[0] == 4 && block[1] == 4 && all[31] == 1 && all_to_all[7] == 1, "started calls give the results of blocking calls");
  expect(out[0] == (comm.rank() == 0 ? 1 : comm.rank()), "so do started scans");

  auto plans = [&](auto... plan) { (plan.run(), ...), (plan.run(), ...); };
  plans(kolo::plan_allreduce(comm, in, out, op), kolo::plan_reduce_scatter(comm, in, block, op),
        kolo::plan_allgather(comm, in, all), kolo::plan_broadcast(comm, x, root), kolo::plan_gather(comm, in, all, root),
        kolo::plan_alltoall(comm, in, all_to_all), kolo::plan_reduce(comm, in, out, op, root),
        kolo::plan_scatter(comm, whole, out, root), kolo::plan_scan(comm, in, out, op),
        kolo::plan_exclusive_scan(comm, in, out, op), kolo::plan_barrier(comm));
  expect(x[0] == 4 && block[1] == 4 && all[31] == 1 && all_to_all[7] == 1, "plans give the results of calls");
}

int main() {
  const int status = kolo::shm::launch(4, [](auto& comm) {
    the_block(comm);
    several_at_once(comm);
    every_one(comm);
  });
  if (status == 0) std::puts("Named algorithms, deadlines, started and planned operations: all gave the same sums.");
  return status;
}

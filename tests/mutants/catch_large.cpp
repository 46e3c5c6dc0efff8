// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes that show only with vectors larger than any cache, or with pieces of several tiles.
// built with others: ranks
#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/launch/threads.hpp>

#include <atomic>
#include <vector>

#include "support/refers_to_nothing.hpp"

namespace {

std::atomic<bool> good{true};

}  // namespace

int main() {
  kolo::threads::run(2, [](auto& host) {
    kolo::communicator<refers_to_nothing> comm{refers_to_nothing{host.transport().split(0, host.rank())}};
    const std::vector<int> x(2'200'001, comm.rank());
    std::vector<int> all(2 * x.size());
    kolo::allgather(comm, x, all);
    if (all.front() != 0 || all.back() != 1) good = false;
    if (comm.transport().spares != comm.transport().pieces) good = false;
  });
  for (const std::size_t n : {std::size_t{50'000}, std::size_t{2'200'001}})
    kolo::threads::run(3, [&](auto& comm) {
      std::vector<float> x(n), y(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 1000) + static_cast<float>(comm.rank());
      kolo::allreduce(comm, x, y, kolo::sum, kolo::two_shot{});
      kolo::allreduce(comm, x, kolo::sum, kolo::two_shot{});
      for (std::size_t i = 0; i < n; ++i)
        if (x[i] != 3 * static_cast<float>(i % 1000) + 3 || y[i] != x[i]) good = false;
      if (comm.rank() != 1) x.assign(n, 0);
      kolo::broadcast(comm, x, 1, kolo::one_shot{});
      if (x != y) good = false;
    });
  return good ? 0 : 1;
}

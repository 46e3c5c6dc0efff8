// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the executor over messages: collectives on a few threads, of one piece and of many, which run in two lanes.
// built with others: ranks
#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/reduce_scatter.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/ring.hpp>

#include <atomic>
#include <chrono>
#include <vector>

#include "support/message_threads.hpp"

namespace {

std::atomic<bool> good{true};

unsigned at(int rank, std::size_t i) { return 1000u * static_cast<unsigned>(rank + 1) + static_cast<unsigned>(i); }

void run(testing::message_communicator& comm, std::size_t n) {
  const int p = comm.size(), r = comm.rank();
  std::vector<unsigned> in(n), sum(n), out, all(n * static_cast<std::size_t>(p));
  for (std::size_t i = 0; i < n; ++i) in[i] = at(r, i);
  for (std::size_t i = 0; i < n; ++i)
    for (int q = 0; q < p; ++q) sum[i] += at(q, i);
  const auto allreduce = [&](auto algorithm) {
    auto x = in;
    kolo::allreduce(comm, x, kolo::sum, algorithm);
    if (x != sum) good = false;
  };
  const auto mine = kolo::block(n, p, r);
  const auto reduce_scatter = [&](auto algorithm) {
    out.assign(mine.count, 0);
    kolo::reduce_scatter(comm, in, out, kolo::sum, algorithm);
    for (std::size_t i = 0; i < mine.count; ++i)
      if (out[i] != sum[mine.first + i]) good = false;
  };
  allreduce(kolo::ring{}), allreduce(kolo::circulant{}), allreduce(kolo::recursive_doubling{}),
      allreduce(kolo::two_shot{});
  reduce_scatter(kolo::ring{}), reduce_scatter(kolo::circulant{});
  kolo::allgather(comm, in, all, kolo::ring{});
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != at(static_cast<int>(i / n), i % n)) good = false;
}

}  // namespace

int main() {
  for (const int ranks : {2, 3, 4})
    testing::run_message_threads(ranks,
                                 [](auto& comm) {
                                   for (const std::size_t n : {5, 101, 1009, 1009, 1009, 1009, 1009})
                                     run(comm, n);  // repeated, because the two lanes interleave differently each time
                                 },
                                 {.timeout = std::chrono::seconds{10}, .slot_bytes = 64});
  return good ? 0 : 1;
}

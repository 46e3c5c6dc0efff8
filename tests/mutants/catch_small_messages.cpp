// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in small calls over messages, which run by cached plans, and in packed copies of strided views.
// built with others: ranks
#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/execute/packed_views.hpp>
#include <kolo/execute/self.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/view/strided.hpp>

#include <chrono>
#include <vector>

#include "support/expect.hpp"
#include "support/message_threads.hpp"

namespace {

using testing::expect, testing::good;

/// Its result shows which ranks were combined, and in which order.
struct then {
  static constexpr bool commutative = false;
  long operator()(long a, long b) const { return a * 10 + b % 10; }
};

void run(testing::message_communicator& comm) {
  const int p = comm.size(), r = comm.rank();
  long order = 0;
  for (int q = 0; q < p; ++q) order = order * 10 + q + 1;
  for (int k = 0; k < 3; ++k) {
    std::vector<long> x{r + 1, r + 1}, y(2), all(static_cast<std::size_t>(p));
    kolo::allreduce(comm, x, y, then{}, kolo::one_shot{});
    kolo::allreduce(comm, x, then{}, kolo::one_shot{});
    expect(x == y && x == std::vector<long>(2, order));
    for (int root = 0; root < p; ++root) {
      long number = r == root ? 100 + root : 0;
      kolo::broadcast(comm, std::span{&number, 1}, root, kolo::one_shot{});
      expect(number == 100 + root);
    }
    const long mine = 7 + r;
    kolo::allgather(comm, std::span{&mine, 1}, all, kolo::one_shot{});
    for (int q = 0; q < p; ++q) expect(all[static_cast<std::size_t>(q)] == 7 + q);
    kolo::barrier(comm, kolo::one_shot{});
    std::vector<float> mean(3, static_cast<float>(r));
    kolo::allreduce(comm, mean, kolo::average, kolo::one_shot{});
    expect(mean == std::vector<float>(3, static_cast<float>(p - 1) / 2));
  }
}

/// Checks the buffers that a native collective gets for strided views, and that its result is copied back: on one rank, which is the root or not.
void packed_views(kolo::kind k, int root, bool reads, bool writes) {
  kolo::detail::execute::engine<kolo::self::transport> e;
  int in[] = {1, 2, -7, 3, 4}, out[] = {5, 6, -7, 7, 8};
  const kolo::strided<int, 2> from{in, {2, 2}, {3, 1}}, to{out, {2, 2}, {3, 1}};
  kolo::collective_args job;
  job.collective = k;
  job.root = root;
  job.in = kolo::erase(from);
  job.out = kolo::erase(to);
  job.count = 4;
  kolo::detail::execute::packed_views views;
  const auto& asked = views.begin(e, job);
  const auto* const given = reinterpret_cast<const int*>(k == kolo::kind::broadcast ? asked.out.base : asked.in.base);
  for (int i = 0; reads && i < 4; ++i) expect(!asked.in.find == (k != kolo::kind::broadcast) && given[i] == i + 1);
  for (int i = 0; writes && i < 4; ++i) reinterpret_cast<int*>(asked.out.base)[i] = 10 + i;
  views.end(e, job);
  expect(out[2] == -7 &&
         (writes ? out[0] == 10 && out[1] == 11 && out[3] == 12 && out[4] == 13 : out[0] == 5 && out[4] == 8));
}

void in_place() {
  kolo::detail::execute::engine<kolo::self::transport> e;
  int x[] = {1, 2, 3, 4};
  kolo::collective_args job;
  job.collective = kolo::kind::reduce_scatter;
  job.in = kolo::erase(kolo::as_view(x));
  job.out = kolo::erase(kolo::as_view(x));
  job.count = 4;
  job.out.base += 2 * sizeof(int), job.out.count = 2;
  kolo::detail::execute::packed_views views;
  expect(views.begin(e, job).out.base != job.out.base);
}

}  // namespace

int main() {
  for (const int ranks : {2, 3, 4})
    testing::run_message_threads(ranks, [](auto& comm) { run(comm); },
                                 {.timeout = std::chrono::seconds{10}, .slot_bytes = 64});
  using kolo::kind;
  packed_views(kind::allreduce, 0, true, true), packed_views(kind::reduce, 0, true, true),
      packed_views(kind::reduce, 1, true, false);
  packed_views(kind::gather, 1, true, false), packed_views(kind::broadcast, 0, true, false),
      packed_views(kind::broadcast, 1, false, true);
  packed_views(kind::scatter, 0, true, true), packed_views(kind::scatter, 1, false, true),
      packed_views(kind::exclusive_scan, 0, true, false);
  in_place();
  return good ? 0 : 1;
}

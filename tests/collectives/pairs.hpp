// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checked calls of send, receive and exchange: blocking, nonblocking and persistent, several at once, beside collectives of all ranks.
#pragma once

#include <kolo/point_to_point.hpp>

#include "collectives/movements.hpp"

namespace testing {

/// The k-th message from rank `from` to rank `to`.
inline std::vector<int> message(int from, int to, int k, std::size_t n) {
  return filled<int>(n, [&](std::size_t i) { return for_rank(from, to, i) + 1000 * k; });
}

template <class C>
void try_exchange(C& comm, complaints& wrong, std::size_t n) {
  const int r = comm.rank(), partner = (r ^ 1) < comm.size() ? r ^ 1 : r;
  const auto wanted = part_of_rank(partner, n), mine = part_of_rank(r, n);
  std::vector<int> out(n, -1);
  const auto check = [&](const char* how) {
    expect_same(wrong, say(comm, how, n), r, out, wanted);
    out.assign(n, -1);
  };
  for (int again = 0; again < 3; ++again) kolo::exchange(comm, mine, out, partner), check("exchange");
  kolo::exchange(comm, mine, out, partner, 77), check("exchange with a tag");
  kolo::start_exchange(comm, mine, out, partner).wait(), check("start_exchange");
  auto plan = kolo::plan_exchange(comm, mine, out, partner);
  for (int again = 0; again < 3; ++again) plan.run(), check("plan_exchange");
}

/// One rank after the other, blocking and persistent.
template <class C>
void try_chain(C& comm, complaints& wrong, std::size_t n) {
  const int r = comm.rank(), last = comm.size() - 1;
  std::vector<int> x = part_of_rank(r, n);
  if (r > 0) kolo::receive(comm, x, r - 1);
  if (r < last) kolo::send(comm, x, r + 1);
  expect_same(wrong, say(comm, "a chain", n), r, x, part_of_rank(0, n));
  if (r > 0) {
    auto plan = kolo::plan_receive(comm, x, r - 1, 5);
    for (int k = 0; k < 3; ++k) {
      plan.run();
      expect_same(wrong, say(comm, "plan_receive", n), r, x, message(r - 1, r, k, n));
    }
  }
  if (r < last) {
    std::vector<int> next;
    next.resize(n);
    auto plan = kolo::plan_send(comm, next, r + 1, 5);
    for (int k = 0; k < 3; ++k) {
      const auto now = message(r, r + 1, k, n);
      std::copy(now.begin(), now.end(), next.begin());
      plan.run();
    }
  }
}

/// Each rank sends three messages to each other rank, all in flight at once; they are waited for in reverse order.
template <class C>
void try_all_at_once(C& comm, complaints& wrong, std::size_t n) {
  using request = decltype(kolo::start_send(comm, std::declval<std::vector<int>&>(), 0));
  constexpr int messages = 3;
  const int r = comm.rank(), p = comm.size();
  std::vector<std::vector<int>> out, in;
  std::vector<request> all;
  for (int peer = 0; peer < p; ++peer)
    for (int k = 0; k < messages; ++k) out.push_back(message(r, peer, k, n)), in.emplace_back(n, -1);
  for (int k = 0; k < messages; ++k)
    for (int peer = p - 1; peer >= 0; --peer) {
      if (peer == r) continue;
      const auto at = static_cast<std::size_t>(peer * messages + k);
      all.push_back(kolo::start_send(comm, out[at], peer, k));
      all.push_back(kolo::start_receive(comm, in[at], peer, k));
    }
  while (!all.empty()) all.back().wait(), all.pop_back();
  for (int peer = 0; peer < p; ++peer)
    for (int k = 0; peer != r && k < messages; ++k)
      expect_same(wrong, say(comm, "all at once", n, peer), r, in[static_cast<std::size_t>(peer * messages + k)],
                  message(peer, r, k, n));
}

/// Pair operations while the other ranks are in a collective; those that were started progress in the next collective.
template <class C>
void try_beside_collectives(C& comm, complaints& wrong, std::size_t n) {
  const int r = comm.rank(), p = comm.size();
  const auto sum_of_ranks = [&] {
    std::vector<int> x(n, r);
    kolo::allreduce(comm, x, kolo::sum);
    expect_same(wrong, say(comm, "allreduce between pair operations", n), r, x, std::vector<int>(n, p * (p - 1) / 2));
  };
  std::vector<int> in(n, -1);
  const int partner = p - 1 - r;
  if (r == 0 || r == p - 1) kolo::exchange(comm, part_of_rank(r, n), in, partner);
  sum_of_ranks();
  if (p == 1) return;
  const auto mine = part_of_rank(r, n);
  const int next = (r + 1) % p, last = (r + p - 1) % p;
  auto there = kolo::start_send(comm, mine, next, 1);
  auto here = kolo::start_receive(comm, in, last, 1);
  auto sums = std::vector<int>(n, 1);
  auto sum = kolo::start_allreduce(comm, sums, kolo::sum);
  auto back = kolo::start_send(comm, mine, last, 2);
  std::vector<int> from_next(n, -1);
  auto other = kolo::start_receive(comm, from_next, next, 2);
  while (!other.test()) {
  }
  back.wait(), sum.wait(), here.wait(), there.wait();
  expect_same(wrong, say(comm, "before a collective", n), r, in, part_of_rank(last, n));
  expect_same(wrong, say(comm, "after a collective", n), r, from_next, part_of_rank(next, n));
  expect_same(wrong, say(comm, "in between", n), r, sums, std::vector<int>(n, p));
}

template <class C>
void every_pair(C& comm, complaints& wrong, std::size_t n) {
  try_exchange(comm, wrong, n);
  try_chain(comm, wrong, n);
  try_all_at_once(comm, wrong, n);
  try_beside_collectives(comm, wrong, n);
}

}  // namespace testing

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small calls of the same types that differ in one number, made alternately and repeatedly: each has its own result, whatever the cache holds.
#pragma once

#include <kolo/kolo.hpp>

#include <cstddef>
#include <vector>

namespace testing {

template <class C>
bool small_calls_again(C& comm) {
  const int p = comm.size(), r = comm.rank();
  const auto ranks = static_cast<std::size_t>(p);
  bool is_right = true;
  for (int again = 0; again < 3; ++again) {
    for (int root = 0; root < p; ++root) {
      std::vector<int> x(2, 10 * r + again);
      kolo::broadcast(comm, x, root);
      is_right = is_right && x == std::vector<int>(2, 10 * root + again);
    }
    for (std::size_t n = 1; n <= 80; ++n) {  // more than the cache holds
      std::vector<int> x(n, r + again);
      kolo::allreduce(comm, x, kolo::sum);
      is_right = is_right && x == std::vector<int>(n, p * (p - 1) / 2 + p * again);
      if (n % 16 != 1) continue;
      std::vector<int> none, all(ranks);
      const std::vector<int> mine(ranks, r + again);
      const std::vector<std::size_t> one_each(ranks, 1);
      kolo::alltoall(comm, none, none);
      kolo::alltoall(comm, mine, all, one_each, one_each);  // its key has 0 elements, as that of the call before
      for (std::size_t q = 0; q < ranks; ++q) is_right = is_right && all[q] == static_cast<int>(q) + again;
    }
  }
  return is_right;
}

/// Ranks with short slots use the choices that ranks with long slots made.
inline bool small_calls_with_other_slots() {
  std::vector<kolo::threads::communicator::choices> known(2);
  bool is_right[2] = {true, true};
  const auto call = [&](auto& comm) {
    std::vector<int> x(4000, comm.rank());
    kolo::broadcast(comm, x, 1);
    if (x != std::vector<int>(4000, 1)) is_right[comm.rank()] = false;
  };
  kolo::threads::run(2,
                     [&](auto& comm) {
                       call(comm);
                       call(comm);
                       known[static_cast<std::size_t>(comm.rank())] = comm.take_choices();
                     },
                     {.slot_bytes = 65536});
  kolo::threads::run(2,
                     [&](auto& comm) {
                       comm.begin_with(std::move(known[static_cast<std::size_t>(comm.rank())]));
                       call(comm);
                     },
                     {.slot_bytes = 1024});
  return is_right[0] && is_right[1];
}

}  // namespace testing

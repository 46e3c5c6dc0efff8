// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checked calls of shift and permute: blocking, nonblocking and persistent, by distances of any sign, by maps with state and without.
#pragma once

#include <kolo/point_to_point.hpp>

#include "collectives/movements.hpp"

namespace testing {

inline constexpr auto reversed = [](int rank, int size) { return size - 1 - rank; };
inline constexpr auto rotated = [](int rank, int size) { return (rank + 1) % size; };
inline constexpr auto kept = [](int rank, int) { return rank; };
inline constexpr auto pairs_swapped = [](int rank, int size) { return (rank ^ 1) < size ? rank ^ 1 : rank; };

template <class C, class Map>
void try_permute(C& comm, complaints& wrong, const char* name, std::size_t n, Map map) {
  const int r = comm.rank(), p = comm.size();
  int source = 0;
  while (map(source, p) != r) ++source;
  const auto mine = part_of_rank(r, n), wanted = part_of_rank(source, n);
  std::vector<int> out(n, -1);
  kolo::permute(comm, mine, out, map);
  expect_same(wrong, say(comm, name, n), r, out, wanted);
  out.assign(n, -1);
  kolo::start_permute(comm, mine, out, map).wait();
  expect_same(wrong, say(comm, name, n) + " started", r, out, wanted);
  auto plan = kolo::plan_permute(comm, mine, out, kolo::permuted{map});
  for (int again = 0; again < 2; ++again) {
    out.assign(n, -1);
    plan.run();
    expect_same(wrong, say(comm, name, n) + " planned", r, out, wanted);
  }
}

template <class C>
void try_shift(C& comm, complaints& wrong, std::size_t n) {
  const int r = comm.rank(), p = comm.size();
  const auto mine = part_of_rank(r, n);
  for (const long long distance : {1, -1, 2, 0, -p - 3, 3 * p + 1}) {
    const auto wanted = part_of_rank(static_cast<int>(((r - distance) % p + p) % p), n);
    std::vector<int> out(n, -1);
    for (int again = 0; again < 2; ++again) {
      out.assign(n, -1);
      kolo::shift(comm, mine, out, distance);
      expect_same(wrong, say(comm, "shift", n, static_cast<int>(distance)), r, out, wanted);
    }
    out.assign(n, -1);
    auto request = kolo::start_shift(comm, mine, out, distance);
    request.wait();
    expect_same(wrong, say(comm, "start_shift", n, static_cast<int>(distance)), r, out, wanted);
    auto plan = kolo::plan_shift(comm, mine, out, distance);
    out.assign(n, -1);
    plan.run();
    expect_same(wrong, say(comm, "plan_shift", n, static_cast<int>(distance)), r, out, wanted);
  }
}

template <class C>
void every_permutation(C& comm, complaints& wrong, std::size_t n) {
  try_shift(comm, wrong, n);
  try_permute(comm, wrong, "reversed", n, reversed);
  try_permute(comm, wrong, "rotated", n, rotated);
  try_permute(comm, wrong, "kept", n, kept);
  try_permute(comm, wrong, "pairs swapped", n, pairs_swapped);
  for (int k = 1; k <= 2; ++k)
    try_permute(comm, wrong, "a map with state", n, [k](int rank, int size) { return (rank + k) % size; });
}

}  // namespace testing

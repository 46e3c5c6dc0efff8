// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One checked call of each collective that moves elements without combining them: equal and ragged parts, in place and out of place.
#pragma once

#include "collectives/elements.hpp"
#include "collectives/ranks.hpp"
#include "collectives/reductions.hpp"

namespace testing {

/// Parts of different lengths around n, some of them empty.
inline std::vector<std::size_t> ragged(int p, std::size_t n) {
  return filled<std::size_t>(static_cast<std::size_t>(p),
                             [&](std::size_t r) { return r % 3 == 1 ? 0 : n + r * (n > 0 ? 2 : 0); });
}
inline std::size_t sum_of(const std::vector<std::size_t>& counts, std::size_t first_ranks) {
  std::size_t total = 0;
  for (std::size_t r = 0; r < first_ranks; ++r) total += counts[r];
  return total;
}

/// The parts of all ranks, one after the other.
inline std::vector<int> joined(const std::vector<std::size_t>& counts) {
  std::vector<int> all;
  for (std::size_t r = 0; r < counts.size(); ++r)
    for (std::size_t i = 0; i < counts[r]; ++i) all.push_back(int_of(static_cast<int>(r), i));
  return all;
}
inline std::vector<int> part_of_rank(int r, std::size_t n) {
  return filled<int>(n, [&](std::size_t i) { return int_of(r, i); });
}

template <class C, class A>
void try_broadcast(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm) {
  for (const int root : roots_of(comm.size())) {
    auto x = part_of_rank(comm.rank(), n);
    kolo::broadcast(comm, x, root, algorithm);
    expect_same(wrong, say(comm, name, n, root), comm.rank(), x, part_of_rank(root, n));
  }
}

template <class C, class A>
void try_allgather(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm) {
  const int r = comm.rank();
  const auto rank = static_cast<std::size_t>(r), p = static_cast<std::size_t>(comm.size());
  const auto all = joined(std::vector<std::size_t>(p, n));
  std::vector<int> out(n * p, -1), inside(n * p, -2);
  kolo::allgather(comm, part_of_rank(r, n), out, algorithm);
  expect_same(wrong, say(comm, name, n), r, out, all);
  const auto mine = std::span{inside}.subspan(rank * n, n);
  std::copy_n(part_of_rank(r, n).begin(), n, mine.begin());
  kolo::allgather(comm, mine, inside, algorithm);
  expect_same(wrong, say(comm, name, n) + " in place", r, inside, all);

  const auto counts = ragged(comm.size(), n);
  const auto all_ragged = joined(counts);
  std::vector<int> ragged_out(all_ragged.size(), -1), ragged_inside(all_ragged.size(), -2);
  kolo::allgather(comm, part_of_rank(r, counts[rank]), ragged_out, counts, algorithm);
  expect_same(wrong, say(comm, name, n) + " ragged", r, ragged_out, all_ragged);
  const auto my_ragged = std::span{ragged_inside}.subspan(sum_of(counts, rank), counts[rank]);
  std::copy_n(part_of_rank(r, counts[rank]).begin(), counts[rank], my_ragged.begin());
  kolo::allgather(comm, my_ragged, ragged_inside, counts, algorithm);
  expect_same(wrong, say(comm, name, n) + " ragged, in place", r, ragged_inside, all_ragged);
}

template <class C, class A>
void try_gather_and_scatter(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm) {
  const int r = comm.rank();
  const auto rank = static_cast<std::size_t>(r), p = static_cast<std::size_t>(comm.size());
  const std::vector<std::size_t> equal(p, n), uneven = ragged(comm.size(), n);
  for (const int root : roots_of(comm.size())) {
    const auto call = say(comm, name, n, root);
    const auto whole = [&](const std::vector<std::size_t>& counts) {
      return r == root ? joined(counts) : std::vector<int>{};
    };
    std::vector<int> out(r == root ? n * p : 0, -1), part(n, -1);
    kolo::gather(comm, part_of_rank(r, n), out, root, algorithm);
    expect_same(wrong, call + " gather", r, out, whole(equal));
    kolo::scatter(comm, whole(equal), part, root, algorithm);
    expect_same(wrong, call + " scatter", r, part, part_of_rank(r, n));

    std::vector<int> ragged_out(whole(uneven).size(), -1), ragged_part(uneven[rank], -1);
    kolo::gather(comm, part_of_rank(r, uneven[rank]), ragged_out, uneven, root, algorithm);
    expect_same(wrong, call + " ragged gather", r, ragged_out, whole(uneven));
    kolo::scatter(comm, whole(uneven), ragged_part, uneven, root, algorithm);
    expect_same(wrong, call + " ragged scatter", r, ragged_part, part_of_rank(r, uneven[rank]));

    auto inside = r == root ? joined(uneven) : part_of_rank(r, uneven[rank]);  // both calls are in place at the root
    const auto mine = r == root ? std::span{inside}.subspan(sum_of(uneven, rank), uneven[rank]) : std::span{inside};
    kolo::scatter(comm, inside, mine, uneven, root, algorithm);
    expect_same(wrong, call + " scatter in place", r, inside,
                r == root ? joined(uneven) : part_of_rank(r, uneven[rank]));
    if (r == root)
      for (int& x : inside)
        if (&x < mine.data() || &x >= mine.data() + mine.size()) x = -3;
    kolo::gather(comm, mine, inside, uneven, root, algorithm);
    expect_same(wrong, call + " gather in place", r, inside,
                r == root ? joined(uneven) : part_of_rank(r, uneven[rank]));
  }
}

inline int for_rank(int from, int to, std::size_t i) { return from * 100'000 + to * 2000 + static_cast<int>(i); }

template <class C, class A>
void try_equal_alltoall(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm) {
  const int r = comm.rank();
  std::vector<int> in, wanted;
  for (int q = 0; q < comm.size(); ++q)
    for (std::size_t i = 0; i < n; ++i) in.push_back(for_rank(r, q, i)), wanted.push_back(for_rank(q, r, i));
  std::vector<int> out(in.size(), -1);
  kolo::alltoall(comm, in, out, algorithm);
  expect_same(wrong, say(comm, name, n), r, out, wanted);
}

template <class C, class A>
void try_alltoall(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm) {
  try_equal_alltoall(comm, wrong, name, n, algorithm);
  const int r = comm.rank();
  std::vector<int> in, wanted;
  std::vector<std::size_t> send_counts, receive_counts;
  const auto length = [&](int from, int to) {
    return (from + 2 * to) % 3 == 1 ? 0 : n + static_cast<std::size_t>(from + to);
  };
  for (int q = 0; q < comm.size(); ++q) {
    send_counts.push_back(length(r, q)), receive_counts.push_back(length(q, r));
    for (std::size_t i = 0; i < length(r, q); ++i) in.push_back(for_rank(r, q, i));
    for (std::size_t i = 0; i < length(q, r); ++i) wanted.push_back(for_rank(q, r, i));
  }
  std::vector<int> out(wanted.size(), -1);
  kolo::alltoall(comm, in, out, send_counts, receive_counts, algorithm);
  expect_same(wrong, say(comm, name, n) + " ragged", r, out, wanted);
}

}  // namespace testing

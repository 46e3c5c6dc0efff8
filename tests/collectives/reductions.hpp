// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One checked call of each collective that combines: with integers, and with an operator that does not commute if the algorithm keeps the order.
#pragma once

#include "collectives/elements.hpp"
#include "collectives/ranks.hpp"

namespace testing {

/// The ring of the README, as a user writes it.
struct my_ring {
  static constexpr auto collective = kolo::kind::allreduce;
  static constexpr int blocks(int p) { return p; }
  static constexpr int rounds(int p) { return 2 * (p - 1); }
  static constexpr kolo::step at(int r, int p, int k) {
    using kolo::mod, kolo::arrival;
    return kolo::transfer{.to = mod(r + 1, p),
                          .send = {mod(r - k, p), 1},
                          .from = mod(r - 1, p),
                          .receive = {mod(r - k - 1, p), 1},
                          .then = k < p - 1 ? arrival::theirs_first : arrival::replace};
  }
};

template <kolo::kind K, class A>
inline constexpr bool keeps_order = [] {
  if constexpr (kolo::detail::schedule::Automatic<A>) return true;
  else return kolo::is_ordered<decltype(kolo::schedule_of<K>(A{}))>();
}();

#ifdef __CUDACC__  // a kernel's template argument cannot be a lambda's type
struct sum_of_ints {
  constexpr int operator()(int a, int b) const { return a + b; }
};
inline constexpr sum_of_ints plus{};
#else
inline constexpr auto plus = [](int a, int b) { return a + b; };
#endif

template <class C>
std::string say(const C& comm, const char* call, std::size_t n, int root = -1) {
  std::string s = std::string{call} + " of " + std::to_string(n) + " on " + std::to_string(comm.size()) + " ranks";
  return root < 0 ? s : s + " to " + std::to_string(root);
}

/// Out of place with a lambda, in place with kolo::sum, in place with an operator that does not commute.
template <class C, class A>
void try_allreduce(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm) {
  const int p = comm.size(), r = comm.rank();
  const auto wanted = combined<int>(0, p, n, plus, int_of);
  const auto in = filled<int>(n, [&](std::size_t i) { return int_of(r, i); });
  std::vector<int> out(n, -1), x = in;
  kolo::allreduce(comm, in, out, plus, algorithm);
  expect_same(wrong, say(comm, name, n), r, out, wanted);
  kolo::allreduce(comm, x, kolo::sum, algorithm);
  expect_same(wrong, say(comm, name, n) + " in place", r, x, wanted);
  if constexpr (keeps_order<kolo::kind::allreduce, A>) {
    auto maps = filled<affine>(n, [&](std::size_t i) { return map_of(r, i); });
    kolo::allreduce(comm, maps, then{}, algorithm);
    expect_same(wrong, say(comm, name, n) + " in rank order", r, maps, combined<affine>(0, p, n, then{}, map_of));
  }
}

/// Out of place, and in place with `out` as this rank's block of `in`.
template <class T, class C, class Op, class F, class A>
void try_reduce_scatter_of(C& comm, complaints& wrong, const std::string& call, std::size_t n, const Op& op, F at,
                           const A& algorithm) {
  const int p = comm.size(), r = comm.rank();
  const auto mine = kolo::block(n, p, r);
  const auto wanted = combined<T>(0, p, mine.count, op, [&](int q, std::size_t i) { return at(q, mine.first + i); });
  auto in = filled<T>(n, [&](std::size_t i) { return at(r, i); });
  std::vector<T> out(mine.count);
  kolo::reduce_scatter(comm, std::as_const(in), out, op, algorithm);
  expect_same(wrong, call, r, out, wanted);
  kolo::reduce_scatter(comm, in, std::span{in}.subspan(mine.first, mine.count), op, algorithm);
  expect_bytes(wrong, call + " in place", r, in.data() + mine.first, wanted.data(), mine.count, sizeof(T));
  for (std::size_t i = 0; i < n; ++i) {
    const T before = at(r, i);
    if (i - mine.first >= mine.count)
      expect_bytes(wrong, call + " in place, outside its block", r, &in[i], &before, 1, sizeof(T));
  }
}
template <class C, class A>
void try_reduce_scatter(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm) {
  try_reduce_scatter_of<int>(comm, wrong, say(comm, name, n), n, plus, int_of, algorithm);
  if constexpr (keeps_order<kolo::kind::reduce_scatter, A>)
    try_reduce_scatter_of<affine>(comm, wrong, say(comm, name, n) + " in rank order", n, then{}, map_of, algorithm);
}

/// Out of place with an empty `out` on the other ranks, and in place on all ranks.
template <class T, class C, class Op, class F, class A>
void try_reduce_of(C& comm, complaints& wrong, const std::string& call, std::size_t n, int root, const Op& op, F at,
                   const A& algorithm) {
  const int r = comm.rank();
  const auto in = filled<T>(n, [&](std::size_t i) { return at(r, i); });
  const auto wanted = r == root ? combined<T>(0, comm.size(), n, op, at) : in;
  std::vector<T> out(r == root ? n : 0), x = in;
  kolo::reduce(comm, in, out, op, root, algorithm);
  if (r == root) expect_same(wrong, call, r, out, wanted);
  kolo::reduce(comm, x, x, op, root, algorithm);
  expect_same(wrong, call + " in place", r, x, wanted);
}
template <class C, class A>
void try_reduce(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm) {
  for (const int root : roots_of(comm.size())) {
    try_reduce_of<int>(comm, wrong, say(comm, name, n, root), n, root, plus, int_of, algorithm);
    if constexpr (keeps_order<kolo::kind::reduce, A>)
      try_reduce_of<affine>(comm, wrong, say(comm, name, n, root) + " in rank order", n, root, then{}, map_of,
                            algorithm);
  }
}

template <class C, class A>
void try_scans(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm) {
  const int r = comm.rank();
  const auto in = filled<affine>(n, [&](std::size_t i) { return map_of(r, i); });
  std::vector<affine> out(n), x = in;
  const auto wanted = combined<affine>(0, r + 1, n, then{}, map_of);
  kolo::scan(comm, in, out, then{}, algorithm);
  expect_same(wrong, say(comm, name, n), r, out, wanted);
  kolo::scan(comm, x, x, then{}, algorithm);
  expect_same(wrong, say(comm, name, n) + " in place", r, x, wanted);

  std::vector<affine> before(n, affine{91, 92});
  const auto wanted_before = r == 0 ? before : combined<affine>(0, r, n, then{}, map_of);
  kolo::exclusive_scan(comm, in, before, then{}, algorithm);
  expect_same(wrong, say(comm, name, n) + ", exclusive", r, before, wanted_before);
}

}  // namespace testing

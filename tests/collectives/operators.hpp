// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each operator that an element type supports, against plain loops.
#pragma once

#include <concepts>
#include <type_traits>

#include "collectives/elements.hpp"
#include "collectives/ranks.hpp"
#include "collectives/reductions.hpp"

namespace testing {

template <class T, class X>
constexpr T as(X x) {
  if constexpr (std::is_class_v<T>) return T(static_cast<float>(x));
  else return static_cast<T>(x);
}
/// x in the type in which expected values are computed: integers modulo 2^64, 16-bit floats as float.
template <class T>
constexpr auto wide(T x) {
  if constexpr (std::integral<T>) return static_cast<std::uint64_t>(x);
  else if constexpr (std::is_class_v<T>) return static_cast<float>(x);
  else return x;
}

/// Few factors other than 1 and -1: products stay exact in 16 bits.
constexpr int factor(int rank, std::size_t i) {
  const auto k = static_cast<std::size_t>(rank) + i;
  return k % 4 == 0 ? (rank < 9 ? 2 : 1) : k % 3 == 0 ? -1 : 1;
}

template <class T, class C, class Op, class Plain, class At>
void try_operator(C& comm, complaints& wrong, const std::string& call, const Op& op, Plain plain, At at) {
  constexpr std::size_t n = 83;
  const int p = comm.size(), r = comm.rank();
  auto wanted = combined<T>(0, p, n, plain, at);
  if constexpr (std::same_as<Op, kolo::average_t>)
    for (T& x : wanted) x = as<T>(wide(x) / as<decltype(wide(x))>(p));
  const auto in = filled<T>(n, [&](std::size_t i) { return at(r, i); });
  auto out = filled<T>(n, [&](std::size_t) { return at(0, 0); });
  kolo::allreduce(comm, in, out, op);
  expect_same(wrong, call, r, out, wanted);
  if constexpr (std::integral<T> && !std::same_as<Op, kolo::sum_t>) return;  // the second call takes long to compile
  auto x = in;
  if constexpr (kolo::is_commutative<Op>) kolo::allreduce(comm, x, op, kolo::ring{});
  else kolo::allreduce(comm, x, op, kolo::two_shot{});
  expect_same(wrong, call + " in place", r, x, wanted);
}

template <class T, class C>
void every_operator(C& comm, complaints& wrong, const char* type) {
  const auto small = [](int r, std::size_t i) { return as<T>(number(r, i)); };
  const auto factors = [](int r, std::size_t i) { return as<T>(factor(r, i)); };
  const auto call = [&](const char* op) { return std::string{op} + " of " + type; };
  const auto add = [](T a, T b) { return as<T>(wide(a) + wide(b)); };
  try_operator<T>(comm, wrong, call("sum"), kolo::sum, add, small);
  try_operator<T>(
      comm, wrong, call("product"), kolo::product, [](T a, T b) { return as<T>(wide(a) * wide(b)); }, factors);
  try_operator<T>(
      comm, wrong, call("min"), kolo::min, [](T a, T b) { return b < a ? b : a; }, small);
  try_operator<T>(
      comm, wrong, call("max"), kolo::max, [](T a, T b) { return a < b ? b : a; }, small);
  if constexpr (std::integral<T>) {
    try_operator<T>(
        comm, wrong, call("bit_and"), kolo::bit_and, [](T a, T b) { return as<T>(wide(a) & wide(b)); }, small);
    try_operator<T>(
        comm, wrong, call("bit_or"), kolo::bit_or, [](T a, T b) { return as<T>(wide(a) | wide(b)); }, small);
    try_operator<T>(
        comm, wrong, call("bit_xor"), kolo::bit_xor, [](T a, T b) { return as<T>(wide(a) ^ wide(b)); }, small);
  } else {
    try_operator<T>(comm, wrong, call("average"), kolo::average, add, small);
  }
}

/// Five numbers of ranks, each with slots of the usual size and small ones.
template <class F>
std::string on_five_sizes(F f) {
  std::string all;
  for (const int p : {1, 2, 3, 5, 8})
    for (const auto slot : {usual_slot, small_slot}) all += on_ranks(p, f, slot);
  return all;
}

}  // namespace testing

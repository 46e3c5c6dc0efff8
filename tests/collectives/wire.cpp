// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A wire type narrower than the elements: the same bits on every rank, and an error within the bound, for every algorithm.
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include <cmath>
#include <random>

#include "collectives/ranks.hpp"
#include "collectives/reductions.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

float random_at(int rank, std::size_t i) {
  const auto seed = static_cast<std::uint32_t>(static_cast<std::size_t>(rank) * 7919 + i * 104729 + 1) * 2654435761u;
  return (static_cast<float>(seed >> 8) / 8388608.0F - 1.0F) * 3.0F;
}

/// `roundings`: how often a contribution may have been rounded to `unit` on its way.
template <class Wire, class C, class A>
void try_wire(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm, double unit,
              int roundings) {
  const int p = comm.size(), r = comm.rank();
  const auto in = filled<float>(n, [&](std::size_t i) { return random_at(r, i); });
  std::vector<float> out(n), x = in;
  kolo::allreduce(comm, in, out, kolo::wire<Wire>(kolo::average), algorithm);
  kolo::allreduce(comm, x, kolo::wire<Wire>(kolo::average), algorithm);
  expect_same(wrong, say(comm, name, n) + ", in place and not", r, x, out);
  std::vector<float> all(n * static_cast<std::size_t>(p));
  kolo::allgather(comm, out, all);
  for (int q = 0; q < p; ++q)
    expect_bytes(wrong, say(comm, name, n) + ", compared across ranks", r, all.data() + static_cast<std::size_t>(q) * n,
                 out.data(), n, sizeof(float));
  for (std::size_t i = 0; i < n; ++i) {
    double exact = 0, size = 0;
    for (int q = 0; q < p; ++q) exact += double{random_at(q, i)} / p, size += std::fabs(double{random_at(q, i)}) / p;
    const double bound = p == 1 ? 0 : size * (std::pow(1 + unit, roundings) - 1) + 1e-6;
    if (std::fabs(double{out[i]} - exact) > bound) return wrong.say(say(comm, name, n) + ": too large an error");
  }
}

template <class Wire, class C>
void every_wire(C& comm, complaints& wrong, std::size_t n, double unit) {
  const int p = comm.size(), log = kolo::ceil_log2(p) + 3;
  try_wire<Wire>(comm, wrong, "automatic", n, kolo::automatic{}, unit, log);
  try_wire<Wire>(comm, wrong, "ring", n, kolo::ring{}, unit, p + 1);
  try_wire<Wire>(comm, wrong, "recursive_doubling", n, kolo::recursive_doubling{}, unit, log);
  try_wire<Wire>(comm, wrong, "circulant", n, kolo::circulant{}, unit, log);
  try_wire<Wire>(comm, wrong, "one_shot", n, kolo::one_shot{}, unit, 2);
  try_wire<Wire>(comm, wrong, "two_shot", n, kolo::two_shot{}, unit, 2);
  try_wire<Wire>(comm, wrong, "recursive_multiplying", n, kolo::recursive_multiplying{}, unit, log);
  try_wire<Wire>(comm, wrong, "rabenseifner", n, kolo::rabenseifner{}, unit, log);
  try_wire<Wire>(comm, wrong, "swing", n, kolo::swing{}, unit, log);
  try_wire<Wire>(comm, wrong, "two_level", n, kolo::two_level<>{}, unit, log + 2);
  try_wire<Wire>(comm, wrong, "a tree", n, kolo::sequence<kolo::binomial::reduce, kolo::binomial::broadcast>{}, unit,
                 log);
  try_wire<Wire>(comm, wrong, "my_ring", n, my_ring{}, unit, p + 1);
}

const double bfloat16_unit = std::ldexp(1.0, -8), float16_unit = std::ldexp(1.0, -11);

}  // namespace

TEST_CASE("bfloat16 on the wire") {
  for (const int p : rank_counts) {
    const auto each = [](auto& comm, complaints& wrong) {
      for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{211}, std::size_t{20'011}})
        every_wire<kolo::bfloat16>(comm, wrong, n, bfloat16_unit);
    };
    CHECK(on_ranks(p, each) == "");
  }
}

TEST_CASE("bfloat16 on the wire, in pieces") {
  for (const int p : rank_counts)
    CHECK(on_ranks(
              p, [](auto& comm, complaints& wrong) { every_wire<kolo::bfloat16>(comm, wrong, 1009, bfloat16_unit); },
              small_slot) == "");
}

TEST_CASE("bfloat16 in messages") {
  for (const int p : {1, 2, 3, 5, 6, 8})
    for (const auto slot : {usual_slot, small_slot})
      CHECK(on_ranks<over_messages>(
                p, [](auto& comm, complaints& wrong) { every_wire<kolo::bfloat16>(comm, wrong, 601, bfloat16_unit); },
                slot) == "");
}

TEST_CASE("float16 on the wire") {
  for (const int p : {2, 3, 7})
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            try_wire<kolo::float16>(comm, wrong, "ring", 501, kolo::ring{}, float16_unit, comm.size() + 1);
          }) == "");
}

TEST_CASE("what is reduced to one place travels narrow, too") {
  for (const int p : {2, 3, 6})
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            const auto op = kolo::wire<kolo::bfloat16>(kolo::sum);
            const int r = comm.rank(), size = comm.size();
            const auto exact = [](int q, std::size_t i) { return static_cast<float>(number(q, i)); };
            const auto add = [](float a, float b) { return a + b; };
            try_reduce_scatter_of<float>(comm, wrong, "reduce_scatter", 301, op, exact, kolo::circulant{});
            try_reduce_of<float>(comm, wrong, "reduce", 301, size - 1, op, exact, kolo::binomial{});
            const auto in = filled<float>(301, [&](std::size_t i) { return exact(r, i); });
            std::vector<float> out(301);
            kolo::scan(comm, in, out, op);
            expect_same(wrong, "scan", r, out, combined<float>(0, r + 1, 301, add, exact));
          }) == "");
}

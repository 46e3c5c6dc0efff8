// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A wire format narrower than the elements: the same bits on each rank, and an error within the bound, for each algorithm.
#include <kolo/scaled.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include <cmath>
#include <random>

#include "collectives/ranks.hpp"
#include "collectives/reductions.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

#ifdef KOLO_SANITIZED
constexpr std::size_t many = 6'011;  // each access takes many times as long; still longer than what is copied whole
#else
constexpr std::size_t many = 20'011;
#endif

float random_at(int rank, std::size_t i) {
  const auto seed = static_cast<std::uint32_t>(static_cast<std::size_t>(rank) * 7919 + i * 104729 + 1) * 2654435761u;
  return (static_cast<float>(seed >> 8) / 8388608.0F - 1.0F) * 3.0F;
}

/// A rank's operands, and the averages, without rounding, of the ranks' operands and of their absolute values.
struct averages {
  averages(int r, int p, std::size_t n)
      : in{filled<float>(n, [&](std::size_t i) { return random_at(r, i); })}, exact(n), size(n) {
    for (int q = 0; q < p; ++q)
      for (std::size_t i = 0; i < n; ++i) {
        const double x = double{random_at(q, i)} / p;
        exact[i] += x, size[i] += std::fabs(x);
      }
  }
  std::vector<float> in;
  std::vector<double> exact, size;
};

/// `roundings`: how many times a contribution may be rounded to `unit` on its way.
template <class Wire, class C, class A>
void try_wire(C& comm, complaints& wrong, const char* name, const averages& wanted, const A& algorithm, double unit,
              int roundings) {
  const int p = comm.size(), r = comm.rank();
  const auto& in = wanted.in;
  const std::size_t n = in.size();
  std::vector<float> out(n), x = in;
  kolo::allreduce(comm, in, out, kolo::wire<Wire>(kolo::average), algorithm);
  kolo::allreduce(comm, x, kolo::wire<Wire>(kolo::average), algorithm);
  expect_same(wrong, say(comm, name, n) + ", in place and not", r, x, out);
  std::vector<float> all(n * static_cast<std::size_t>(p));
  kolo::allgather(comm, out, all);
  for (int q = 0; q < p; ++q)
    expect_bytes(wrong, say(comm, name, n) + ", compared across ranks", r, all.data() + static_cast<std::size_t>(q) * n,
                 out.data(), n, sizeof(float));
  const double relative = std::pow(1 + unit, roundings) - 1;
  for (std::size_t i = 0; i < n; ++i) {
    const double bound = p == 1 ? 0 : wanted.size[i] * relative + 1e-6;
    if (std::fabs(double{out[i]} - wanted.exact[i]) > bound)
      return wrong.say(say(comm, name, n) + ": too large an error");
  }
}

template <class Wire, class C>
void every_wire(C& comm, complaints& wrong, std::size_t n, double unit) {
  const int p = comm.size(), log = kolo::ceil_log2(p) + 3;
  const averages wanted{comm.rank(), p, n};
  try_wire<Wire>(comm, wrong, "automatic", wanted, kolo::automatic{}, unit, log);
  try_wire<Wire>(comm, wrong, "ring", wanted, kolo::ring{}, unit, p + 1);
  try_wire<Wire>(comm, wrong, "recursive_doubling", wanted, kolo::recursive_doubling{}, unit, log);
  try_wire<Wire>(comm, wrong, "circulant", wanted, kolo::circulant{}, unit, log);
  try_wire<Wire>(comm, wrong, "one_shot", wanted, kolo::one_shot{}, unit, 2);
  try_wire<Wire>(comm, wrong, "two_shot", wanted, kolo::two_shot{}, unit, 2);
  try_wire<Wire>(comm, wrong, "recursive_multiplying", wanted, kolo::recursive_multiplying{}, unit, log);
  try_wire<Wire>(comm, wrong, "rabenseifner", wanted, kolo::rabenseifner{}, unit, log);
  try_wire<Wire>(comm, wrong, "swing", wanted, kolo::swing{}, unit, log);
  try_wire<Wire>(comm, wrong, "two_level", wanted, kolo::two_level<>{}, unit, log + 2);
  try_wire<Wire>(comm, wrong, "a tree", wanted, kolo::sequence<kolo::binomial::reduce, kolo::binomial::broadcast>{},
                 unit, log);
  try_wire<Wire>(comm, wrong, "my_ring", wanted, my_ring{}, unit, p + 1);
}

const double bfloat16_unit = std::ldexp(1.0, -8), float16_unit = std::ldexp(1.0, -11);

}  // namespace

TEST_CASE("bfloat16 on the wire") {
  for (const int p : rank_counts) {
    const auto each = [](auto& comm, complaints& wrong) {
      for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{211}, many})
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

TEST_CASE("bfloat16 on the wire, over messages") {
  for (const int p : {1, 2, 3, 5, 6, 8})
    for (const auto slot : {usual_slot, small_slot})
      CHECK(on_ranks<over_messages>(
                p, [](auto& comm, complaints& wrong) { every_wire<kolo::bfloat16>(comm, wrong, 601, bfloat16_unit); },
                slot) == "");
}

TEST_CASE("float16 on the wire") {
  for (const int p : {2, 3, 7})
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            const averages wanted{comm.rank(), comm.size(), 501};
            try_wire<kolo::float16>(comm, wrong, "ring", wanted, kolo::ring{}, float16_unit, comm.size() + 1);
          }) == "");
}

TEST_CASE("reduce, reduce_scatter and scan use the wire format") {
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

namespace {

/// The error of two roundings, relative to the greatest element of a group.
template <class Code>
constexpr float of_greatest = 1.0F / 250;
template <>
constexpr float of_greatest<kolo::fp8_e4m3> = 1.0F / 27;
template <>
constexpr float of_greatest<kolo::fp8_e5m2> = 1.0F / 13;

template <class Code, class C, class A>
void try_scaled(C& comm, complaints& wrong, const char* name, std::size_t n, const A& algorithm) {
  const int p = comm.size(), r = comm.rank();
  const auto op = kolo::wire<kolo::scaled<Code, 32>>(kolo::average);
  const auto in = filled<float>(n, [&](std::size_t i) { return random_at(r, i); });
  std::vector<float> out(n), x = in, planned = in, some(n / 3), rest(n - n / 3), spread(2 * n);
  kolo::allreduce(comm, in, out, op, algorithm);
  const auto same = [&](const std::vector<float>& y, const char* how) {
    expect_same(wrong, say(comm, name, n) + how, r, y, out);
  };
  kolo::start_allreduce(comm, x, op, algorithm).wait();
  same(x, ", in place");
  std::copy_n(in.begin(), some.size(), some.begin());
  std::copy(in.begin() + static_cast<std::ptrdiff_t>(some.size()), in.end(), rest.begin());
  kolo::allreduce(comm, kolo::bucket{some, rest}, op, algorithm);
  some.insert(some.end(), rest.begin(), rest.end());
  same(some, ", in two tensors");
  for (std::size_t i = 0; i < n; ++i) spread[2 * i] = in[i];
  const kolo::strided<float, 1> every_second{spread.data(), {n}, {2}};
  {
    auto request = kolo::start_allreduce(comm, every_second, op, algorithm);
    while (!request.test()) {
    }
  }
  for (std::size_t i = 0; i < n; ++i) x[i] = spread[2 * i];
  same(x, ", strided");
  auto plan = kolo::plan_allreduce(comm, planned, op, algorithm);
  std::fill(planned.begin(), planned.end(), 1.0F);
  plan.run();
  std::copy(in.begin(), in.end(), planned.begin());
  plan.run();
  same(planned, ", by a plan, the second time");

  std::vector<float> all(n * static_cast<std::size_t>(p));
  kolo::allgather(comm, out, all);
  for (int q = 0; q < p; ++q)
    expect_bytes(wrong, say(comm, name, n) + ", compared across ranks", r, all.data() + static_cast<std::size_t>(q) * n,
                 out.data(), n, sizeof(float));
  for (std::size_t i = 0; i < n; ++i) {
    double exact = 0;
    for (int q = 0; q < p; ++q) exact += double{random_at(q, i)} / p;
    const double bound = p == 1 ? 0 : 3 * 2 * double{of_greatest<Code>};
    if (std::fabs(double{out[i]} - exact) > bound) return wrong.say(say(comm, name, n) + ": too large an error");
  }
}

/// A schedule whose algorithm is known at run time only.
struct doubling_or_direct {
  static constexpr auto collective = kolo::kind::allreduce;
  bool doubles = false;
  int blocks(int) const { return 1; }
  int rounds(int p) const { return doubles ? kolo::recursive_doubling::allreduce{}.rounds(p) : 1; }
  bool supports(int p) const { return !doubles || (p & (p - 1)) == 0; }
  kolo::step at(int r, int p, int k) const {
    return doubles ? kolo::recursive_doubling::allreduce{}.at(r, p, k) : kolo::one_shot::allreduce{}.at(r, p, k);
  }
};

}  // namespace

TEST_CASE("scaled groups of small numbers on the wire") {
  for (const int p : rank_counts)
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{33}, std::size_t{2011}}) {
              try_scaled<std::int8_t>(comm, wrong, "automatic", n, kolo::automatic{});
              try_scaled<std::int8_t>(comm, wrong, "two_shot", n, kolo::two_shot{});
            }
            try_scaled<kolo::fp8_e4m3>(comm, wrong, "one_shot", 501, kolo::automatic{});
            try_scaled<kolo::fp8_e5m2>(comm, wrong, "one_shot", 501, kolo::automatic{});
          }) == "");
  CHECK(
      on_ranks(
          3,
          [](auto& comm, complaints& wrong) { try_scaled<std::int8_t>(comm, wrong, "pieces", 3001, kolo::two_shot{}); },
          small_slot) == "");
  CHECK(on_ranks<over_messages>(3, [](auto& comm, complaints& wrong) {
          try_scaled<std::int8_t>(comm, wrong, "messages", 3001, kolo::automatic{});
        }) == "");
}

TEST_CASE("scaled: the last, incomplete group is right in each run, also if the operator has no result for zeros") {
  const auto alike = [](auto& comm, complaints& wrong, auto f) {
    std::vector<float> x(35);
    auto plan = kolo::plan_allreduce(comm, x, kolo::wire<kolo::scaled<std::int8_t, 32>>(f), kolo::two_shot{});
    for (int again = 0; again < 3; ++again) {
      std::fill(x.begin(), x.end(), 2.0F);
      plan.run();
      if (std::any_of(x.begin(), x.end(), [&](float y) { return y != x[0]; })) wrong.say("the last group is wrong");
    }
  };
  CHECK(on_ranks(2, [&](auto& comm, complaints& wrong) {
          alike(comm, wrong, [](float a, float b) { return a * b / (a + b); });
          alike(comm, wrong, [](float a, float b) { return a + b + 1000; });
        }) == "");
}

TEST_CASE("scaled: schedules that send partial results are refused") {
  using namespace kolo;
  for (int p = 2; p <= 17; ++p) {
    CHECK(reduces_once(one_shot::allreduce{}, p));
    CHECK(reduces_once(two_shot::allreduce{}, p));
    CHECK(reduces_once(recursive_doubling::allreduce{}, p) == (p == 2));
    CHECK(reduces_once(ring::allreduce{}, p) == (p == 2));
  }
  CHECK(on_ranks(4, [](auto& comm, complaints& wrong) {
          std::vector<float> x(100, 127.0F);
          const auto op = kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::sum);
          kolo::allreduce(comm, x, op, doubling_or_direct{});
          if (x[99] != 4 * 127) wrong.say("the sum is wrong");
          try {
            kolo::allreduce(comm, x, op, doubling_or_direct{true});
            wrong.say("partial results are not refused");
          } catch (const kolo::error& e) {
            if (std::string{e.what()}.find("sends partial results") == std::string::npos) wrong.say(e.what());
          }
        }) == "");
}

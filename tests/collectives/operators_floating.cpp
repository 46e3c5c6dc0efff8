// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each operator on floating-point numbers whose sums are exact in any order, and sums of random floats, which are not.
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include <cmath>
#include <random>

#include "collectives/operators.hpp"
#include "support/catch.hpp"

using namespace testing;

TEMPLATE_TEST_CASE("each operator on floating-point numbers", "", float, double, kolo::float16, kolo::bfloat16) {
  CHECK(on_five_sizes([](auto& comm, complaints& wrong) {
          every_operator<TestType>(comm, wrong, sizeof(TestType) == 2 ? "16-bit floats" : "floats");
        }) == "");
}

namespace {

/// The error of a sum of p numbers, one by one, is at most (p - 1) u / (1 - (p - 1) u) times the sum of their absolute values.
template <class C, class A>
void try_random_sum(C& comm, complaints& wrong, const char* name, const A& algorithm) {
  constexpr std::size_t n = 5003;
  const int p = comm.size();
  std::vector<float> x(n);
  std::vector<double> exact(n), sizes(n);
  for (int r = 0; r < p; ++r) {
    std::mt19937 random{static_cast<unsigned>(r + 1)};
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < n; ++i) {
      const float value = normal(random);
      exact[i] += double{value}, sizes[i] += std::fabs(double{value});
      if (r == comm.rank()) x[i] = value;
    }
  }
  kolo::allreduce(comm, x, kolo::sum, algorithm);
  const double u = std::ldexp(1.0, -24), bound = (p - 1) * u / (1 - (p - 1) * u);
  for (std::size_t i = 0; i < n; ++i)
    if (std::fabs(double{x[i]} - exact[i]) > bound * sizes[i])
      return wrong.say(say(comm, name, n) + ": too large an error");
  std::vector<float> all(n * static_cast<std::size_t>(p));
  kolo::allgather(comm, x, all);
  for (int r = 0; r < p; ++r)
    expect_bytes(wrong, say(comm, name, n) + ", compared across ranks", r, all.data() + static_cast<std::size_t>(r) * n,
                 x.data(), n, sizeof(float));
}

}  // namespace

TEST_CASE("the sum of random floats is within the error bound, and has the same bits on each rank") {
  for (const int p : rank_counts)
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            try_random_sum(comm, wrong, "automatic", kolo::automatic{});
            try_random_sum(comm, wrong, "ring", kolo::ring{});
            try_random_sum(comm, wrong, "recursive_doubling", kolo::recursive_doubling{});
            try_random_sum(comm, wrong, "circulant", kolo::circulant{});
            try_random_sum(comm, wrong, "one_shot", kolo::one_shot{});
            try_random_sum(comm, wrong, "two_shot", kolo::two_shot{});
            try_random_sum(comm, wrong, "recursive_multiplying", kolo::recursive_multiplying{});
            try_random_sum(comm, wrong, "recursive_multiplying by 3", kolo::recursive_multiplying{.radix = 3});
            try_random_sum(comm, wrong, "swing", kolo::swing{});
            try_random_sum(comm, wrong, "two_level", kolo::two_level<>{});
            try_random_sum(comm, wrong, "my_ring", my_ring{});
          }) == "");
}

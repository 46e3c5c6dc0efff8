// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The counted cost of schedules by exchanges is the documented one: rounds, and bytes of the busiest rank.
#include "unit/schedule/costs.hpp"
#include "unit/schedule/list.hpp"

#include <vector>

using namespace kolo;
using namespace costs;

namespace {

/// The factors of p up to `radix`, largest first; empty if p has others.
std::vector<int> factors(int p, int radix) {
  std::vector<int> all;
  for (int f = radix; p > 1 && f > 1;) {
    if (p % f == 0) all.push_back(f), p /= f;
    else --f;
  }
  return p == 1 ? all : std::vector<int>{};
}

cost of_multiplying(int p, std::size_t n, int radix) {
  const auto all = factors(p, radix);
  const std::size_t folded =
      all.empty() && p > 1 ? 1 : 0;  // onto a power of two; a rank that acts for two does one more of each
  std::size_t messages = folded == 0 ? 0 : 1 + lg_floor(p);
  for (const int f : all) messages += others(f);
  const std::size_t rounds = folded == 0 ? all.size() : 2 + lg_floor(p);
  return {static_cast<int>(rounds), messages, messages * n, messages * n, messages * n};
}

cost of_halves(int p, std::size_t n) {
  const std::size_t lg = lg_floor(p), folded = floor_power_of_two(p) == p ? 0 : 1,
                    most = most_of(floor_power_of_two(p), n);
  return {static_cast<int>(2 * (lg + folded)), 2 * lg + folded, 2 * most + folded * n, 2 * most + folded * n,
          most + folded * n};
}

}  // namespace

TEST_CASE("the cost of recursive multiplying") {
  for (const int radix : {2, 3, 4, 7, 100})
    check("by radix", schedule_of<kind::allreduce>(recursive_multiplying{.radix = radix}),
          [&](int p, std::size_t n) { return of_multiplying(p, n, radix); });
  CHECK(!supports(schedule_of<kind::allreduce>(recursive_multiplying{.radix = 1}), 4));
  const auto by_4 = schedule_of<kind::allreduce>(recursive_multiplying{});
  CHECK(by_4.rounds(64) == 3);
  CHECK(by_4.rounds(12) == 2);
  CHECK(by_4.rounds(257) == 8 + 2);  // onto 256
  CHECK(by_4.rounds(11) == 3 + 2);   // onto 8
}

TEST_CASE("the cost of an allreduce by halves") {
  check("rabenseifner", rabenseifner::allreduce{}, of_halves);
  check("swing", swing::allreduce{}, of_halves);
}

TEST_CASE("swing's partners are near: at distances 1, 1, 3, 5, 11, ...") {
  const int p = 64, near[] = {1, 1, 3, 5, 11, 21};
  for (int r = 0; r < p; ++r)
    for (int k = 0; k < 6; ++k) {
      const int d = mod(swing::both_sides::partner(r, p, k) - r, p);
      CHECK(std::min(d, p - d) == near[k]);
    }
}

TEST_CASE("the cost of a reduce_scatter or allgather by exchanges") {
  check("recursive halving", recursive_halving::reduce_scatter{}, [](int p, std::size_t n) {
    const int q = floor_power_of_two(p), pairs = p - q;
    if (pairs == 0) return cost{ceil_log2(p), lg_floor(p), most_of(p, n), most_of(p, n), most_of(p, n)};
    std::size_t blocks = 0;  // received by rank 0, whose halves have the most pairs
    for (int half = q / 2; half > 0; half /= 2) blocks += static_cast<std::size_t>(half + std::min(half, pairs));
    const std::size_t received = n + blocks * (n / static_cast<std::size_t>(p));
    return cost{ceil_log2(q) + 2, lg_floor(p) + 1, n, received, received};  // a rank for which another acts sends all
  });
  check("pairwise", pairwise::reduce_scatter{}, [](int p, std::size_t n) {
    return cost{p - 1, others(p), most_of(p, n), most_of(p, n), most_of(p, n)};
  });
  check("bruck", bruck::allgather{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), q(p), most_of(p, n), most_of(p, n), 0};
  });
  check("neighbour_exchange", neighbour_exchange::allgather{}, [](int p, std::size_t n) {
    return cost{p / 2, static_cast<std::size_t>(p / 2), most_of(p, n), most_of(p, n), 0};
  });
}

TEST_CASE("the cost of an alltoall by exchanges") {
  check("pairwise", pairwise::alltoall{}, [](int p, std::size_t n) {
    return cost{p - 1, others(p), most_of(p, n), most_of(p, n), 0};
  });
  check("bruck", bruck::alltoall{}, [](int p, std::size_t n) {
    std::size_t moves = 0;
    for (unsigned j = 1; j < static_cast<unsigned>(p); ++j)
      for (unsigned k = 0; k < q(p); ++k) moves += j >> k & 1;
    const std::size_t bytes = moves * (n / static_cast<std::size_t>(p));
    if (p == floor_power_of_two(p)) CHECK(bytes == n / 2 * q(p));
    return cost{ceil_log2(p), q(p), bytes, bytes, 0};
  });
}

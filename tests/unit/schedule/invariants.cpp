// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The invariants that the comments on ring, circulant, recursive doubling and binomial state for every round, checked up to 64 ranks. These comments also prove
// each for every p, from one round to the next.
#include "support/catch.hpp"

#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/ring.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace kolo;

namespace {

using ranks = std::uint64_t;  // a bit for each
constexpr ranks one(int r) { return ranks{1} << r; }

/// The contributions that each rank holds in each block. For schedules whose peers are single ranks.
template <class S>
class run {
 public:
  run(const S& s, int p) : s_{s}, p_{p}, held_(static_cast<std::size_t>(p * s.blocks(p))) {
    for (int r = 0; r < p; ++r)
      for (int b = 0; b < s.blocks(p); ++b) at(r, b) = one(r);
  }
  void play(int k) {
    run before = *this;
    for (int r = 0; r < p_; ++r)
      for (const transfer& t : step{s_.at(r, p_, k)})
        for (int i = 0; i < t.receive.count && t.from.count > 0; ++i) {
          const int b = mod(t.receive.first + i, s_.blocks(p_));
          if (t.then == arrival::replace) at(r, b) = before.at(t.from.first, b);
          else at(r, b) |= before.at(t.from.first, b);
        }
  }
  ranks& at(int r, int b) { return held_[static_cast<std::size_t>(r * s_.blocks(p_) + b)]; }

 private:
  S s_;
  int p_;
  std::vector<ranks> held_;
};

/// holds(run, p, k) before each round and at the end, for each p that S supports.
template <class S, class F>
void before_each_round(F holds) {
  const S s{};
  for (int p = 2; p <= 64; ++p) {
    if (!supports(s, p)) continue;
    run<S> now{s, p};
    for (int k = 0; k <= s.rounds(p); ++k) {
      INFO(p << " ranks, before round " << k);
      CHECK(holds(now, p, k));
      if (k < s.rounds(p)) now.play(k);
    }
  }
}

/// Ranks first, first + 1, ... modulo p.
ranks circular(int first, int count, int p) {
  ranks all = 0;
  for (int i = 0; i < count; ++i) all |= one(mod(first + i, p));
  return all;
}

}  // namespace

TEST_CASE("ring: rank r sends the contributions of ranks r - k to r") {
  before_each_round<ring::reduce_scatter>([](auto& now, int p, int k) {
    bool all = true;
    for (int r = 0; r < p; ++r) all = all && now.at(r, mod(r - k - 1, p)) == circular(r - k, k + 1, p);
    return all;
  });
}

TEST_CASE("circulant: the ranks that count hold disjoint contributions to a block, together those of all ranks") {
  before_each_round<circulant::reduce_scatter>([](auto& now, int p, int k) {
    int skip = p;
    for (int i = 0; i < k; ++i) skip = (skip + 1) / 2;
    bool all = true;
    for (int b = 0; b < p; ++b) {
      ranks seen = 0;
      for (int j = 0; j < skip; ++j) {
        const ranks its = now.at(mod(b - j, p), b);
        all = all && (seen & its) == 0;
        seen |= its;
      }
      all = all && seen == circular(0, p, p);
    }
    return all && (k < ceil_log2(p) || skip == 1);
  });
}

TEST_CASE("recursive doubling: each rank holds the contributions of its aligned group of 2^k") {
  before_each_round<recursive_doubling::butterfly>([](auto& now, int p, int k) {
    bool all = true;
    for (int r = 0; r < p; ++r) all = all && now.at(r, 0) == circular(r >> k << k, 1 << k, p);
    return all;
  });
}

TEST_CASE("binomial: a multiple of 2^k holds the contributions of the 2^k ranks from itself on") {
  before_each_round<binomial::reduce>([](auto& now, int p, int k) {
    bool all = true;
    for (int r = 0; r < p; r += 1 << k) all = all && now.at(r, 0) == circular(r, std::min(1 << k, p - r), p);
    return all;
  });
}

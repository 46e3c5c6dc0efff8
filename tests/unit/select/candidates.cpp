// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Candidates with the same tree: a fit may replace one with another, so their bits must be the same.
#include <kolo/explain.hpp>
#include <kolo/fit.hpp>
#include <kolo/kolo.hpp>

#include "support/catch.hpp"

#include <atomic>
#include <cstring>
#include <random>

using namespace kolo;

namespace {

/// Do the candidates with one tree, of a reduce and of scans, give rank `comm.rank()` the same bits?
template <class T, class C>
bool trees_agree(C& comm) {
  std::mt19937 random{static_cast<unsigned>(comm.rank())};
  std::uniform_real_distribution<float> any(-1, 1);
  std::vector<T> x(1001);
  for (T& v : x) v = T(any(random));
  const auto of = [&](auto collective) {
    std::vector<T> result(x.size());
    collective(result);
    return result;
  };
  const auto same = [](const std::vector<T>& a, const std::vector<T>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
  };
  const auto reduced = [&](const auto& a) { return of([&](auto& y) { reduce(comm, x, y, sum, 2, a); }); };
  const auto everywhere = [&](const auto& a) { return of([&](auto& y) { allreduce(comm, x, y, sum, a); }); };
  const auto scanned = [&](const auto& a) { return of([&](auto& y) { scan(comm, x, y, sum, a); }); };
  const auto before = [&](const auto& a) { return of([&](auto& y) { exclusive_scan(comm, x, y, sum, a); }); };
  return same(reduced(one_shot{}), reduced(two_shot{})) && same(everywhere(one_shot{}), everywhere(two_shot{})) &&
         same(scanned(chain{1}), scanned(chain{4})) && same(scanned(chain{1}), scanned(chain{16})) &&
         same(before(chain{1}), before(chain{4})) && same(before(chain{1}), before(chain{16}));
}

}  // namespace

TEST_CASE("allreduce candidates with one tree give the same bits") {
  threads::run(5, [](auto& comm) {
    std::mt19937 random{static_cast<unsigned>(comm.rank())};
    std::uniform_real_distribution<float> any(-1, 1);
    std::vector<float> x(1001);
    for (float& v : x) v = any(random);
    std::vector<float> first;
    int claim = 0;
    const auto same_bits = [&](const detail::select::candidate& c) {
      if (c.tree == 0) return true;
      ++claim;
      tuning t;  // only its pattern is cheap; of equal candidates the first is taken
      const auto s = c.schedule(comm.size());
      t.rows[0] = {.ranks = 5, .runs_as = detail::execute::classify(s, kind::allreduce, 5), .round = 1e-9};
      auto own = comm.split(0, comm.rank());
      for (std::size_t n = 1; const auto p : {pattern::rounds, pattern::exchange, pattern::there_and_back})
        if (p != t.rows[0].runs_as) t.rows[n++] = {.ranks = 5, .runs_as = p, .round = 1};
      use_tuning(own, t);
      std::vector<float> result(x.size());
      allreduce(own, x, result, sum);
      if (first.empty()) first = result;
      return explain(own, kind::allreduce, 4004).choice == c.name &&
             std::memcmp(first.data(), result.data(), 4 * x.size()) == 0;
    };
    int wrong = 0;
    using T = typename std::remove_cvref_t<decltype(comm)>::transport_type;
    const detail::select::selection_query any_call{};
    for (const auto& c : detail::select::candidates_in<kind::allreduce, T>(any_call)) wrong += same_bits(c) ? 0 : 1;
    if (wrong != 0) throw std::runtime_error("other bits");
    if (claim < 2) throw std::runtime_error("nothing to compare");
  });
}

TEST_CASE("reduce and scan candidates with one tree give the same bits, also of bfloat16") {
  std::atomic<int> wrong = 0;
  threads::run(5, [&](auto& comm) { wrong += !trees_agree<float>(comm) + !trees_agree<bfloat16>(comm); });
  CHECK(wrong == 0);
}

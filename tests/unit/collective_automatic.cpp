// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The automatic choice: what it depends on, what it may not depend on, and that calls follow it.
#include <kolo/kolo.hpp>

#include "support/catch.hpp"

#include <atomic>
#include <barrier>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <string>

using namespace kolo;

namespace {

/// Everything costs `dear` but what runs as `cheap`.
tuning in_favour_of(pattern cheap) {
  tuning t;
  std::size_t n = 0;
  for (const auto p : {pattern::rounds, pattern::one_way, pattern::exchange, pattern::there_and_back})
    t.rows[n++] = {.ranks = 4, .runs_as = p, .round = p == cheap ? 1e-9 : 1e-3};
  return t;
}

/// What rank r of four has to say: added from the left it makes 1, in pairs 0.
float operand(int rank) { return rank == 0 ? 1e8f : rank == 2 ? -1e8f : 1.0f; }

template <class C, class A = automatic>
float sum_of_operands(C& comm, std::size_t n = 1, const A& algorithm = {}) {
  std::vector<float> x(n, operand(comm.rank()));
  kolo::allreduce(comm, x, kolo::sum, algorithm);
  return x[n / 2];
}

template <class F>
std::string complaint(F f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "none";
}

struct left {  // keeps the operand of the lower rank, so it does not commute
  static constexpr bool commutative = false;
  int operator()(int a, int) const { return a; }
};

}  // namespace

TEST_CASE("size classes are in order, four to an octave, and known by their least length") {
  unsigned last = detail::size_class(0);
  std::size_t classes = 1;
  for (std::size_t n = 1; n <= 1 << 16; ++n) {
    const unsigned c = detail::size_class(n);
    if (c != last) {
      ++classes;
      REQUIRE(c > last);
      REQUIRE(detail::least_of_class(c) == n);
    }
    last = c;
  }
  CHECK(classes == 4 + 4 * 14 + 1);
  CHECK(detail::least_of_class(detail::size_class(~std::size_t{0})) == std::size_t{7} << 61);
}

TEST_CASE("the choice is the least predicted time of those that are admitted") {
  const auto check = [](std::span<const detail::candidate> all, kind k, int p, std::size_t bytes, bool commutes) {
    const detail::question q{.collective = k, .size = p, .bytes = bytes, .commutes = commutes};
    const auto choice = detail::chosen(all, q, recorded::shared_memory, nullptr);
    INFO(name(k) << " of " << p << " ranks, " << bytes << " bytes");
    REQUIRE(choice < all.size());
    CHECK(q.admits(all[choice]));
    CHECK((commutes || all[choice].is_ordered));
    for (const auto& c : all)
      if (q.admits(c)) CHECK(detail::predicted(all[choice], q, recorded::shared_memory) <= detail::predicted(c, q, recorded::shared_memory));
  };
  for (const int p : {2, 3, 4, 7, 8, 16, 17, 100})
    for (const std::size_t bytes : {0, 4, 1000, 65536, 1 << 22, 1 << 28}) {
      for (const bool commutes : {true, false}) {
        check(detail::candidates_for<kind::allreduce, true>, kind::allreduce, p, bytes, commutes);
        check(detail::candidates_for<kind::reduce_scatter, true>, kind::reduce_scatter, p, bytes, commutes);
        check(detail::candidates_for<kind::scan, true>, kind::scan, p, bytes, commutes);
        check(detail::candidates_for<kind::exclusive_scan, true>, kind::exclusive_scan, p, bytes, commutes);
      }
      check(detail::candidates_for<kind::reduce, true>, kind::reduce, p, bytes, true);
      check(detail::candidates_for<kind::broadcast, true>, kind::broadcast, p, bytes, true);
      check(detail::candidates_for<kind::allgather, true>, kind::allgather, p, bytes, true);
      check(detail::candidates_for<kind::gather, true>, kind::gather, p, bytes, true);
      check(detail::candidates_for<kind::scatter, true>, kind::scatter, p, bytes, true);
      check(detail::candidates_for<kind::alltoall, true>, kind::alltoall, p, bytes, true);
      check(detail::candidates_for<kind::barrier, true>, kind::barrier, p, bytes, true);
    }
}

TEST_CASE("candidates that claim one tree give the same bits") {
  threads::run(5, [](auto& comm) {
    std::mt19937 random{static_cast<unsigned>(comm.rank())};
    std::uniform_real_distribution<float> any(-1, 1);
    std::vector<float> x(1001);
    for (float& v : x) v = any(random);
    std::vector<float> first;
    const auto same_bits = [&](const detail::candidate& c) {
      if (c.tree == 0) return true;
      tuning t;  // nothing but its pattern is cheap; of equals, the first is taken
      const auto s = c.schedule(comm.size());
      t.rows[0] = {.ranks = 5, .runs_as = detail::recognise(s, kind::allreduce, 5), .round = 1e-9};
      auto own = comm.split(0, comm.rank());
      for (std::size_t n = 1; const auto p : {pattern::rounds, pattern::exchange, pattern::there_and_back})
        if (p != t.rows[0].runs_as) t.rows[n++] = {.ranks = 5, .runs_as = p, .round = 1};
      use_tuning(own, t);
      std::vector<float> result(x.size());
      allreduce(own, x, result, sum);
      if (first.empty()) first = result;
      return explain(own, kind::allreduce, 4004).choice == c.name && std::memcmp(first.data(), result.data(), 4 * x.size()) == 0;
    };
    int wrong = 0;
    for (const auto& c : detail::candidates_for<kind::allreduce, true>) wrong += same_bits(c) ? 0 : 1;
    if (wrong != 0) throw std::runtime_error("other bits");
  });
}

TEST_CASE("calls follow the table that the program names") {
  std::atomic<int> wrong = 0;
  threads::run(4, [&](auto& comm) {
    auto by_exchange = comm.split(0, comm.rank()), by_rounds = comm.split(0, comm.rank());
    use_tuning(by_exchange, in_favour_of(pattern::exchange));
    use_tuning(by_rounds, in_favour_of(pattern::rounds));
    wrong += explain(by_exchange, kind::allreduce, 4).choice != "one_shot";
    wrong += explain(by_rounds, kind::allreduce, 4).choice != "recursive_doubling";
    wrong += sum_of_operands(by_exchange) != 1;
    wrong += sum_of_operands(by_rounds) != 0;
    wrong += sum_of_operands(by_rounds, 1, one_shot{}) != 1;
    std::vector<int> x(3, comm.rank() + 7);
    allreduce(by_rounds, x, left{});  // must keep the order whatever is cheap
    wrong += x[2] != 7;
  });
  CHECK(wrong == 0);
}

TEST_CASE("a table comes before the first choice, and is the same on all ranks") {
  std::atomic<int> named = 0, right = 0;
  std::barrier everybody{4};  // who refuses fails its peers, so nobody may still be busy
  threads::run(4, [&](auto& comm) {
    auto late = comm.split(0, comm.rank()), other = comm.split(0, comm.rank());
    barrier(late, one_shot{});
    use_tuning(late, in_favour_of(pattern::rounds));  // an algorithm that is named is no choice
    sum_of_operands(late);
    everybody.arrive_and_wait();
    if (complaint([&] { use_tuning(late, recorded::shared_memory); }).find("an algorithm has been chosen already") != std::string::npos) ++named;
    const auto mine = in_favour_of(comm.rank() == 3 ? pattern::exchange : pattern::rounds);
    if (complaint([&] { use_tuning(other, mine); }).find("different tables") != std::string::npos) ++right;
  });
  CHECK(named == 4);
  CHECK(right == 4);
}

TEST_CASE("what is fitted in this run is the same on all ranks, and changes no bit that must not change") {
  for (const int p : {1, 2, 3, 4}) {
    std::atomic<int> wrong = 0;
    std::mutex guard;
    std::set<double> rounds;
    threads::run(p, [&](auto& comm) {
      auto plain = comm.split(0, comm.rank());
      const tuning fitted = fit(comm);
      {
        const std::lock_guard lock{guard};
        for (const auto& row : fitted.rows)
          if (row.ranks == fitted.rows[0].ranks && row.runs_as == fitted.rows[0].runs_as) rounds.insert(row.round);
      }
      if (p == 1) return;
      wrong += !comm.engine()->fitted;
      for (const std::size_t n : {1, 1000, 100'000})
        wrong += sum_of_operands(comm, n) != sum_of_operands(plain, n);
      const auto any = ordered<order::any>(automatic{});
      sum_of_operands(comm, 1000, any);
      const auto told = explain(comm, kind::allreduce, 4000, {.allowed = order::any});
      wrong += told.reason.find("fitted in this run") == std::string::npos;
      wrong += explain(comm, kind::broadcast, 4000).reason.find("fitted in this run") == std::string::npos;
      wrong += explain(comm, kind::allreduce, 4000).reason.find("recorded table") == std::string::npos && explain(comm, kind::allreduce, 4000).reason.find("same bits") == std::string::npos;
    });
    INFO(p << " ranks");
    CHECK(wrong == 0);
    CHECK(rounds.size() == 1);
  }
}

TEST_CASE("an explanation names every candidate, fastest first, the bound and the reason") {
  threads::run(3, [](auto& comm) {
    if (comm.rank() != 0) return;
    const auto e = explain(comm, kind::allreduce, 1 << 20);
    bool in_order = e.candidates.size() == std::size(detail::candidates_for<kind::allreduce, true>) && e.candidates.front().algorithm == e.choice;
    for (std::size_t i = 1; i < e.candidates.size(); ++i) in_order = in_order && e.candidates[i - 1].seconds <= e.candidates[i].seconds;
    const auto text = e.message();
    bool says_all = e.bound > 0 && text.find("recorded table") != std::string::npos && text.find("bound") != std::string::npos;
    for (const auto& c : detail::candidates_for<kind::allreduce, true>) says_all = says_all && text.find(c.name) != std::string::npos;
    const auto strict = explain(comm, kind::allreduce, 1 << 20, {.commutes = false});
    const bool refuses = strict.message().find("does not combine in the order of the ranks") != std::string::npos;
    if (!in_order || !says_all || !refuses) throw std::runtime_error("the explanation lacks something: " + text);
  });
}

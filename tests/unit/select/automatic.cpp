// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The automatic choice: what it depends on, what it must not depend on, and that calls follow it.
#include <kolo/explain.hpp>
#include <kolo/fit.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/kolo.hpp>
#include <kolo/scaled.hpp>
#include <kolo/view/bfloat16.hpp>

#include "collectives/small_calls_again.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <barrier>
#include <cstdint>
#include <limits>
#include <mutex>
#include <set>
#include <string>

using namespace kolo;

namespace {

/// A table in which only schedules that run as `cheap` are cheap.
tuning favouring(pattern cheap) {
  tuning t;
  std::size_t n = 0;
  for (const auto p : {pattern::rounds, pattern::one_way, pattern::exchange, pattern::there_and_back})
    t.rows[n++] = {.ranks = 4, .runs_as = p, .round = p == cheap ? 1e-9 : 1e-3};
  return t;
}

/// The operand of rank r of four: their sum is 1 from the left, and 0 in pairs.
float operand(int rank) { return rank == 0 ? 1e8f : rank == 2 ? -1e8f : 1.0f; }

template <class C, class A = automatic>
float sum_of_operands(C& comm, std::size_t n = 1, const A& algorithm = {}) {
  std::vector<float> x(n, operand(comm.rank()));
  kolo::allreduce(comm, x, kolo::sum, algorithm);
  return x[n / 2];
}

template <class F>
std::string error_text(F f) {
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

TEST_CASE("size classes are ordered, four per octave, and identified by their least length") {
  unsigned last = detail::select::size_class(0);
  std::size_t classes = 1;
  for (std::size_t n = 1; n <= 1 << 16; ++n) {
    const unsigned c = detail::select::size_class(n);
    if (c != last) {
      ++classes;
      REQUIRE(c > last);
      REQUIRE(detail::select::least_of_class(c) == n);
    }
    last = c;
  }
  CHECK(classes == 4 + 4 * 14 + 1);
  CHECK(detail::select::least_of_class(detail::select::size_class(~std::size_t{0})) == std::size_t{7} << 61);
}

TEST_CASE("the eligible candidate with the least predicted time is chosen") {
  const auto check = [](std::span<const detail::select::candidate> all, kind k, int p, std::size_t bytes,
                        bool commutes) {
    const detail::select::selection_query q{.collective = k, .size = p, .bytes = bytes, .commutes = commutes};
    const auto choice = detail::select::chosen(all, q, default_tuning::shared_memory, nullptr);
    INFO(name(k) << " of " << p << " ranks, " << bytes << " bytes");
    REQUIRE(choice < all.size());
    CHECK(q.is_eligible(all[choice]));
    CHECK((commutes || all[choice].is_ordered));
    for (const auto& c : all)
      if (q.is_eligible(c))
        CHECK(detail::select::predicted(all[choice], q, default_tuning::shared_memory) <=
              (1 + 1e-8) * detail::select::predicted(c, q, default_tuning::shared_memory));
  };
  for (const int p : {2, 3, 4, 7, 8, 16, 17, 100})
    for (const std::size_t bytes : {0u, 4u, 1000u, 65536u, 1u << 22, 1u << 28}) {
      for (const bool commutes : {true, false}) {
        check(detail::select::candidates_for<kind::allreduce, true>, kind::allreduce, p, bytes, commutes);
        check(detail::select::candidates_for<kind::reduce_scatter, true>, kind::reduce_scatter, p, bytes, commutes);
        check(detail::select::candidates_for<kind::scan, true>, kind::scan, p, bytes, commutes);
        check(detail::select::candidates_for<kind::exclusive_scan, true>, kind::exclusive_scan, p, bytes, commutes);
      }
      check(detail::select::candidates_for<kind::reduce, true>, kind::reduce, p, bytes, true);
      check(detail::select::candidates_for<kind::broadcast, true>, kind::broadcast, p, bytes, true);
      check(detail::select::candidates_for<kind::allgather, true>, kind::allgather, p, bytes, true);
      check(detail::select::candidates_for<kind::gather, true>, kind::gather, p, bytes, true);
      check(detail::select::candidates_for<kind::scatter, true>, kind::scatter, p, bytes, true);
      check(detail::select::candidates_for<kind::alltoall, true>, kind::alltoall, p, bytes, true);
      check(detail::select::candidates_for<kind::barrier, true>, kind::barrier, p, bytes, true);
    }
}

TEST_CASE("times that differ only by rounding are equal, so that ranks of two compilers make the same choice") {
  constexpr double byte = 0.1e-9;
  for (const double more :
       {0.0, 1e-13, -1e-13, 1e-3, -1e-3}) {  // 4 rounds and 6/4 of the bytes; 2 rounds and all bytes twice
    tuning t;
    t.rows[0] = {.ranks = 4, .runs_as = pattern::rounds, .round = 256 * byte * (1 + more)};
    t.rows[0].bytes.fill(byte);
    const detail::select::candidate all[] = {
        detail::select::candidate_of<detail::select::stateless<circulant::allreduce>>("circulant"),
        detail::select::candidate_of<detail::select::stateless<recursive_doubling::allreduce>>("recursive_doubling")};
    const detail::select::selection_query q{
        .collective = kind::allreduce, .size = 4, .bytes = 1024, .has_streams = false};
    CHECK(detail::select::fastest(all, q, t) == (more > 1e-6 ? 1 : 0));
  }
}

TEST_CASE("calls with the same first entry in the cache are cached in the next entries") {
  detail::execute::call_cache cache;
  const auto first = detail::execute::call_cache::index_of(7);
  std::vector<std::uint64_t> alike;  // keys with the same first entry
  for (std::uint64_t key = 7; alike.size() < 3; ++key)
    if (detail::execute::call_cache::index_of(key) == first) alike.push_back(key);
  for (const auto key : alike) cache.entry_for(key).key = key;
  for (const auto key : alike) CHECK(cache.entry_for(key).key == key);
  CHECK((cache.find(alike[0]) && !cache.find(alike[1])));  // find looks at the first entry only
  for (std::uint64_t key = 1000; key < 1000 + 16 * detail::execute::call_cache::calls; ++key)
    if (auto& there = cache.entry_for(key); there.key == 0) there.key = key;
  auto& there = cache.entry_for(5);  // the cache is full: another call is dropped
  there.key = 5;
  CHECK((cache.find(5) && &cache.entry_for(5) == &there));
}

TEST_CASE("small calls that differ only in their algorithm mostly have different entries") {
  detail::execute::call_cache cache;
  std::vector<const void*> places;
  for (std::uint64_t function = 0x401000; places.size() < 16; function += 0x70)  // as resolve_named makes them
    places.push_back(&cache.small({.what = function << 9 | 2, .count = 16, .element_bytes = 4, .root = 0}));
  std::sort(places.begin(), places.end());
  CHECK(std::unique(places.begin(), places.end()) - places.begin() >= 8);
}

namespace {
/// Whether the cache has `key`; enters it.
bool make_known(detail::execute::call_cache& cache, const detail::execute::call_cache::small_key& key) {
  auto& there = cache.small(key);
  const bool is_known = there.key == key;
  if (is_known) CHECK(there.plan.sends == key.what % 256);
  there.key = key;
  there.plan.sends = static_cast<std::uint8_t>(key.what);
  return is_known;
}
}  // namespace

TEST_CASE("two small calls that share an entry or a pair of entries are both cached; a third replaces the older") {
  using detail::execute::call_cache;
  call_cache cache;
  std::vector<std::vector<call_cache::small_key>> at(call_cache::small_calls);  // by entry
  const call_cache::small_call* first = &cache.small({.what = 1, .count = 1});
  for (std::uint64_t k = 1; k < 1000; ++k)
    first = std::min<const call_cache::small_call*>(first, &cache.small({.what = k, .count = k}));
  for (std::uint64_t k = 1; k < 1000; ++k) {
    const call_cache::small_key key{.what = k, .count = k};
    at[static_cast<std::size_t>(&cache.small(key) - first)].push_back(key);
  }
  CHECK((!make_known(cache, at[4][0]) && !make_known(cache, at[4][1])));
  for (int i = 0; i < 3; ++i) CHECK((make_known(cache, at[4][0]) && make_known(cache, at[4][1])));
  CHECK(!make_known(cache, at[4][2]));
  CHECK((make_known(cache, at[4][1]) && make_known(cache, at[4][2])));
  CHECK((!make_known(cache, at[6][0]) && !make_known(cache, at[7][0])));
  for (int i = 0; i < 3; ++i) CHECK((make_known(cache, at[6][0]) && make_known(cache, at[7][0])));
}

TEST_CASE("small calls that differ only in the size of their elements have different entries") {
  detail::execute::call_cache cache;
  std::set<const detail::execute::call_cache::small_call*> places;
  for (const std::size_t bytes : {1u, 2u, 4u, 8u, 16u})
    places.insert(&cache.small({.what = 5, .count = 1, .element_bytes = bytes}));
  CHECK(places.size() == 5);
}

TEST_CASE("small calls that differ in one number have their own results, however often they are repeated") {
  for (const int p : {1, 2, 3, 5}) {
    std::atomic<int> right = 0;
    threads::run(p, [&](auto& comm) { right += testing::small_calls_again(comm); });
    CHECK(right == p);
  }
  CHECK(testing::small_calls_with_other_slots());
}

TEST_CASE("a recent call matches only if types, collective, element size, count and root are the same") {
  detail::execute::call_traits there{};
  there.how.collective = kind::broadcast;
  there.types = 7;
  const detail::execute::call_cache::recent_call known{
      .traits = &there, .types = 7, .element_bytes = 4, .collective = kind::broadcast, .root = 1, .elements = 3};
  CHECK(known.is_of(there, 4, 3, 1));
  CHECK((!known.is_of(there, 8, 3, 1) && !known.is_of(there, 4, 2, 1) && !known.is_of(there, 4, 3, 0)));
  there.how.collective = kind::allgather;
  CHECK(!known.is_of(there, 4, 3, 1));
  there.how.collective = kind::broadcast;
  there.types = 8;
  CHECK(!known.is_of(there, 4, 3, 1));
}

TEST_CASE("with another wire type nothing runs as streams, and in fixed order a fit does not change the choice") {
  tuning few_rounds, few_bytes;
  few_rounds.rows[0] = {.ranks = 4, .runs_as = pattern::rounds, .round = 1};
  few_bytes.rows[0] = {.ranks = 4, .runs_as = pattern::rounds};
  few_bytes.rows[0].bytes.fill(1);
  const auto choice = [&](const detail::select::selection_query& q, const tuning* fitted) {
    return std::string{
        detail::select::candidates_for<kind::allreduce, true>[detail::select::chosen(
                                                                  detail::select::candidates_for<kind::allreduce, true>,
                                                                  q, few_rounds, fitted)]
            .name};
  };
  detail::select::selection_query q{.collective = kind::allreduce, .size = 4, .bytes = 4096, .has_streams = false};
  CHECK(choice(q, nullptr) == "one_shot");
  CHECK(choice(q, &few_bytes) == "two_shot");
  q.converts = true;  // one_shot and two_shot round at different places
  CHECK(choice(q, &few_bytes) == "one_shot");
  q.allowed = order::any;
  CHECK(choice(q, &few_bytes) != "one_shot");

  std::atomic<int> wrong = 0;
  threads::run(4, [&](auto& comm) {
    auto table = favouring(pattern::exchange);
    table.rows[0].message = 1;
    use_tuning(comm, table);
    std::vector<float> x(1, operand(comm.rank()));
    allreduce(comm, x, wire<bfloat16>(sum));
    wrong += x[0] != 0 || explain(comm, kind::allreduce, 2, {.converts = true}).choice != "recursive_doubling";
    wrong += sum_of_operands(comm) != 1;
  });
  CHECK(wrong == 0);
}

namespace {

/// The result of an allreduce of n fractions that travel as Wire: its bits show which algorithm ran.
template <class Wire, class C, class A = automatic>
std::vector<float> narrow_sum(C& comm, std::size_t n, const A& algorithm = {}) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = 1.0f / static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(comm.rank()) * 13) % 101);
  kolo::allreduce(comm, x, kolo::wire<Wire>(kolo::sum), algorithm);
  return x;
}
using in_eighths = scaled<std::int8_t, 32>;

}  // namespace

TEST_CASE("with scales on the wire, the bytes that travel are counted, not a group per element") {
  tuning t;  // at 40,000 bytes on the wire, one round of all bytes takes as long as two rounds of half of them
  t.rows[0] = {.ranks = 4, .runs_as = pattern::rounds, .round = 1.5e-9 * 40'000};
  t.rows[0].bytes.fill(1e-9);
  std::atomic<int> wrong = 0;
  threads::run(4, [&](auto& comm) {
    use_tuning(comm, t);
    for (const std::size_t n : {16'384u, 65'536u}) {
      const auto x = narrow_sum<in_eighths>(comm, n);
      const auto direct = narrow_sum<in_eighths>(comm, n, one_shot{});
      const auto in_two = narrow_sum<in_eighths>(comm, n, two_shot{});
      wrong += direct == in_two || x != (n / 32 * sizeof(in_eighths) < 40'000 ? direct : in_two);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("with scales on the wire, a choice is not taken from another wire type of that length, or given to it") {
  tuning t;  // favours the fewest messages
  t.rows[0] = {.ranks = 4, .runs_as = pattern::rounds, .message = 1};
  std::atomic<int> wrong = 0;
  threads::run(4, [&](auto& comm) {
    constexpr std::size_t n = 16'384, alike = n / 32 * sizeof(in_eighths) / sizeof(bfloat16);
    const auto halves = narrow_sum<bfloat16>(comm, alike, recursive_doubling{});
    const auto eighths = narrow_sum<in_eighths>(comm, n, one_shot{});
    for (const bool halves_first : {true, false}) {
      auto own = comm.split(0, comm.rank());
      use_tuning(own, t);
      if (halves_first) wrong += narrow_sum<bfloat16>(own, alike) != halves;
      wrong += narrow_sum<in_eighths>(own, n) != eighths;
      wrong += narrow_sum<bfloat16>(own, alike) != halves;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("the last `ordered` counts") {
  STATIC_REQUIRE(
      std::is_same_v<decltype(ordered<order::any>(automatic{})), kolo::detail::schedule::automatic_in_any_order>);
  STATIC_REQUIRE(std::is_same_v<decltype(ordered<order::fixed_for_size>(ordered<order::any>(automatic{}))),
                                kolo::detail::schedule::automatic_in_fixed_order>);
  STATIC_REQUIRE(std::is_same_v<decltype(ordered<order::any>(ring{})), ring>);
}

TEST_CASE("a split communicator inherits a named table, until another one is named there") {
  std::atomic<int> wrong = 0;
  threads::run(4, [&](auto& comm) {
    auto parent = comm.split(0, comm.rank());
    use_tuning(parent, favouring(pattern::rounds));
    auto child = parent.split(0, comm.rank()), other = parent.split(0, comm.rank());
    wrong += explain(child, kind::allreduce, 4).choice != "recursive_doubling";
    wrong += explain(child, kind::allreduce, 4).reason.find("that the program named") == std::string::npos;
    use_tuning(other, favouring(pattern::exchange));
    wrong += explain(other, kind::allreduce, 4).choice != "one_shot";
    wrong += explain(parent, kind::allreduce, 4).choice != "recursive_doubling";
    fit(parent);
    auto late = parent.split(0, comm.rank());
    wrong += !late.engine()->named || late.engine()->fitted;
  });
  CHECK(wrong == 0);
}

TEST_CASE("the explanation of a call on one rank names 1 rank") {
  threads::run(1, [](auto& comm) {
    CHECK(explain(comm, kind::broadcast, 4).message().starts_with("broadcast of 4 bytes among 1 rank: "));
  });
}

TEST_CASE("a table that is named after a fit replaces the fit") {
  std::atomic<int> wrong = 0;
  threads::run(4, [&](auto& comm) {
    fit(comm);
    use_tuning(comm, favouring(pattern::rounds));
    const auto e = explain(comm, kind::broadcast, 4);
    wrong += e.choice != "binomial" || e.reason.find("that the program named") == std::string::npos;
    wrong += e.message().find("broadcast of 4 bytes among 4 ranks: binomial") != 0;
    wrong += explain(comm, kind::barrier, 0).message().find("barrier among 4 ranks: ") != 0;
  });
  CHECK(wrong == 0);
}

TEST_CASE("a table with an invalid cost, or without a row for a pattern, is refused") {
  const auto refusal = [](const tuning& t) {
    std::string said;
    threads::run(1, [&](auto& comm) { said = error_text([&] { use_tuning(comm, t); }); });
    return said;
  };
  tuning t = favouring(pattern::rounds);
  CHECK(refusal(t) == "none");
  for (const double x : {-1e-9, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    t.rows[2].combined[3] = x;
    CHECK(refusal(t).find("negative, infinite or not a number") != std::string::npos);
  }
  t = favouring(pattern::exchange);
  t.rows[0].ranks = 0;
  CHECK(refusal(t).find("no row for pattern::rounds") != std::string::npos);
}

TEST_CASE("calls follow the table that the program names") {
  std::atomic<int> wrong = 0;
  threads::run(4, [&](auto& comm) {
    auto by_exchange = comm.split(0, comm.rank()), by_rounds = comm.split(0, comm.rank());
    use_tuning(by_exchange, favouring(pattern::exchange));
    use_tuning(by_rounds, favouring(pattern::rounds));
    wrong += explain(by_exchange, kind::allreduce, 4).choice != "one_shot";
    wrong += explain(by_rounds, kind::allreduce, 4).choice != "recursive_doubling";
    wrong += sum_of_operands(by_exchange) != 1;
    wrong += sum_of_operands(by_rounds) != 0;
    wrong += sum_of_operands(by_rounds, 1, one_shot{}) != 1;
    std::vector<int> x(3, comm.rank() + 7);
    allreduce(by_rounds, x, left{});  // keeps the order, whatever is cheap
    wrong += x[2] != 7;
  });
  CHECK(wrong == 0);
}

TEST_CASE("use_tuning is refused after the first choice, and if the ranks' tables differ") {
  std::atomic<int> named = 0, right = 0;
  std::barrier everybody{4};  // a rank that refuses fails its peers: none may be in a call
  threads::run(4, [&](auto& comm) {
    auto late = comm.split(0, comm.rank()), other = comm.split(0, comm.rank());
    barrier(late, one_shot{});
    use_tuning(late, favouring(pattern::rounds));  // a named algorithm is no choice
    sum_of_operands(late);
    everybody.arrive_and_wait();
    if (error_text([&] {
          use_tuning(late, default_tuning::shared_memory);
        }).find("this communicator has already chosen an algorithm") != std::string::npos)
      ++named;
    const auto mine = favouring(comm.rank() == 3 ? pattern::exchange : pattern::rounds);
    if (error_text([&] { use_tuning(other, mine); }).find("different tables") != std::string::npos) ++right;
  });
  CHECK(named == 4);
  CHECK(right == 4);
}

TEST_CASE("a fit is the same on all ranks, and changes no bit that must not change") {
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
      for (const std::size_t n : {1u, 1000u, 100'000u}) wrong += sum_of_operands(comm, n) != sum_of_operands(plain, n);
      const auto any = ordered<order::any>(automatic{});
      sum_of_operands(comm, 1000, any);
      const auto told = explain(comm, kind::allreduce, 4000, {.allowed = order::any});
      wrong += told.reason.find("fitted in this run") == std::string::npos;
      wrong += explain(comm, kind::broadcast, 4000).reason.find("fitted in this run") == std::string::npos;
      wrong += explain(comm, kind::allreduce, 4000).reason.find("default table") == std::string::npos &&
               explain(comm, kind::allreduce, 4000).reason.find("same bits") == std::string::npos;
    });
    INFO(p << " ranks");
    CHECK(wrong == 0);
    CHECK(rounds.size() == 1);
  }
}

TEST_CASE("if a rank does not call fit or use_tuning, the error names it") {
  for (const bool is_fit : {true, false}) {
    std::string said[2];
    threads::run(2, [&](auto& comm) {
      said[comm.rank()] = error_text([&] {
        if (comm.rank() == 0 && is_fit) fit(comm);
        if (comm.rank() == 0 && !is_fit) use_tuning(comm, favouring(pattern::rounds));
        std::vector<float> x(16);
        allreduce(comm, x, sum);
      });
    });
    const char* const by_the_one = is_fit ? "rank 0 calls fit, rank 1" : "rank 0 calls use_tuning, rank 1";
    for (const auto& words : said) {
      INFO(words);
      CHECK((words.find(by_the_one) != std::string::npos || words.find("rank 0 calls split, ") != std::string::npos));
    }
  }
}

TEST_CASE("if one rank calls fit and another use_tuning, each is told") {
  std::string said[2];
  threads::run(2, [&](auto& comm) {
    said[comm.rank()] = error_text([&] {
      if (comm.rank() == 0) fit(comm);
      else use_tuning(comm, favouring(pattern::rounds));
    });
  });
  const auto names = [&](const char* text) {
    return said[0].find(text) != std::string::npos || said[1].find(text) != std::string::npos;
  };
  INFO(said[0] << '\n' << said[1]);
  CHECK((names("rank 0: another rank calls use_tuning") || names("rank 1: another rank calls fit")));
}

TEST_CASE("fitted on nodes, two_level is a candidate where the fitted table decides, and runs if it is the fastest") {
  const topology in_twos{.ranks_per_node = 2};
  std::atomic<int> wrong = 0;
  threads::run(4, [&](auto& comm) {
    auto plain = comm.split(0, comm.rank());
    const auto any = ordered<order::any>(automatic{});
    wrong += error_text([&] { fit(plain, topology{.sizes = {2, 1}}); }).find("do not hold") == std::string::npos;
    auto whole = comm.split(0, comm.rank()), other = comm.split(0, comm.rank());
    fit(whole, in_twos);
    fit(whole, topology_of(whole));
    wrong += explain(whole, kind::allgather, 1 << 20).message().find("two_level") != std::string::npos;  // one node
    wrong += error_text([&] {
               fit(other, comm.rank() == 3 ? topology{.ranks_per_node = 3} : in_twos);
             }).find("different nodes") == std::string::npos;
    fit(comm, in_twos);
    const auto seconds_of_two_level = [&](kind k, order allowed) {
      double found = -1;
      for (const auto& c : explain(comm, k, 1 << 20, {.allowed = allowed}).candidates)
        if (c.algorithm == "two_level") found = c.seconds;
      return found;
    };
    wrong += seconds_of_two_level(kind::allreduce, order::any) <= 0;
    wrong += seconds_of_two_level(kind::reduce_scatter, order::any) <= 0;
    wrong += seconds_of_two_level(kind::allgather, order::fixed_for_size) <= 0;
    wrong += seconds_of_two_level(kind::allreduce, order::fixed_for_size) >= 0;
    wrong += seconds_of_two_level(kind::broadcast, order::any) >= 0;

    using T = typename std::remove_cvref_t<decltype(comm)>::transport_type;
    comm.engine()->resolved.fitted_nodes = std::make_shared<const detail::select::node_schedules<>>(
        in_twos, 4, tuning{}, []<kind K>() { return detail::select::candidates_over<K, T>(true); });
    wrong += explain(comm, kind::allreduce, 4, {.allowed = order::any}).choice != "two_level";
    wrong += sum_of_operands(comm, 1, any) != 0;  // (1e8 + 1) + (-1e8 + 1)
    wrong += sum_of_operands(comm, 1) != 1;       // from the left
    std::vector<int> all(4);
    kolo::allgather(comm, std::vector<int>{comm.rank()}, all);
    wrong += all != std::vector<int>{0, 1, 2, 3};
  });
  CHECK(wrong == 0);
}

TEST_CASE("a fit follows networks that are 300 times slower, or faster, than the table") {
  using detail::collective::small_bytes, detail::collective::large_bytes;
  constexpr workload small{.hops = 1, .messages = 1, .bytes = small_bytes},
      large{.hops = 1, .messages = 1, .bytes = large_bytes, .combined = large_bytes};
  for (const double factor : {1.0 / 300, 1.0, 300.0}) {
    const tuning& before = default_tuning::messages;
    const auto seconds = [&](std::size_t bytes, const workload& w) {
      return before.seconds(2, pattern::rounds, bytes, w);
    };
    tuning t = before;
    detail::collective::scale(
        t, 2,
        {pattern::rounds, factor * seconds(small_bytes, small), factor * seconds(large_bytes, large), small, large});
    CHECK(t.rows[0].message == Approx(factor * before.rows[0].message));
    CHECK(t.rows[0].bytes[3] == Approx(factor * before.rows[0].bytes[3]));
    t = before;
    workload moved = large;
    moved.combined = 0;
    const double others = seconds(large_bytes, moved),
                 measured = others + factor * (seconds(large_bytes, large) - others);
    detail::collective::scale_combining(t, 2, {pattern::rounds, measured, measured, {}, large});
    CHECK(t.rows[0].combined[3] == Approx(factor * before.rows[0].combined[3]));
  }
}

TEST_CASE("an explanation names every candidate, fastest first, the bound and the reason") {
  threads::run(3, [](auto& comm) {
    if (comm.rank() != 0) return;
    const auto e = explain(comm, kind::allreduce, 1 << 20);
    bool in_order = e.candidates.size() == std::size(detail::select::candidates_for<kind::allreduce, true>) &&
                    e.candidates.front().algorithm == e.choice;
    for (std::size_t i = 1; i < e.candidates.size(); ++i)
      in_order = in_order && e.candidates[i - 1].seconds <= e.candidates[i].seconds;
    const auto text = e.message();
    bool says_all =
        e.bound > 0 && text.find("default table") != std::string::npos && text.find("bound") != std::string::npos;
    for (const auto& c : detail::select::candidates_for<kind::allreduce, true>)
      says_all = says_all && text.find(c.name) != std::string::npos;
    for (const kind k : {kind::reduce_scatter, kind::allgather, kind::broadcast, kind::gather, kind::alltoall}) {
      const auto other = explain(comm, k, 1 << 20);  // these read or write less, and have no bound
      says_all = says_all && other.bound == 0 && other.message().find("bound") == std::string::npos;
    }
    const auto strict = explain(comm, kind::allreduce, 1 << 20, {.commutes = false});
    const bool refuses = strict.message().find("does not combine in the order of the ranks") != std::string::npos;
    if (!in_order || !says_all || !refuses) throw std::runtime_error("the explanation lacks something: " + text);
  });
}

namespace {

/// The number of lengths for which a call of this collective runs another algorithm than `explain` names.
template <kind K, class C>
int explained_wrongly(C& comm) {
  using T = typename C::transport_type;
  const detail::select::selection_query any_call{};
  int wrong = 0;
  for (const bool commutes : {true, false})
    for (const bool converts : {false, true})
      for (std::size_t bytes = 1; bytes < 40'000'000; bytes = bytes * 3 / 2 + 1) {
        if (!commutes && (!detail::schedule::reduces(K) || K == kind::reduce)) continue;
        if (converts && !detail::schedule::reduces(K)) continue;
        const detail::execute::choice how{K, commutes, order::fixed_for_size, false,
                                          &detail::select::candidates_in<K, T>};
        const auto s = detail::select::choose(*comm.engine(), how, bytes, false, converts).schedule;
        const auto said = explain(comm, K, bytes, {.commutes = commutes, .converts = converts}).choice;
        int right = 0;
        for (const auto& c : detail::select::candidates_in<K, T>(any_call))
          right += c.name == said && c.of(comm.size()).at == s.at && c.of(comm.size()).self == s.self;
        wrong += right != 1;
      }
  return wrong;
}

}  // namespace

TEST_CASE("explain names the algorithm that the call runs, for any length") {
  for (const int p : {2, 3, 4, 5, 8, 17}) {
    int wrong = 0;
    threads::run(p, [&](auto& comm) {
      if (comm.rank() != 0) return;
      wrong += explained_wrongly<kind::allreduce>(comm) + explained_wrongly<kind::reduce_scatter>(comm) +
               explained_wrongly<kind::allgather>(comm) + explained_wrongly<kind::broadcast>(comm) +
               explained_wrongly<kind::reduce>(comm) + explained_wrongly<kind::gather>(comm) +
               explained_wrongly<kind::scatter>(comm) + explained_wrongly<kind::alltoall>(comm) +
               explained_wrongly<kind::scan>(comm) + explained_wrongly<kind::exclusive_scan>(comm);
    });
    INFO(p << " ranks");
    CHECK(wrong == 0);
  }
}

TEST_CASE("explain reports that an operator does not commute, or that a candidate takes equal parts only") {
  std::atomic<int> wrong = 0;
  threads::run(3, [&](auto& comm) {  // with an operator that does not commute, a reduce has no choice
    const auto e = explain(comm, kind::reduce, 4, {.commutes = false});
    wrong += e.choice != "binomial" || e.reason.find("does not commute") == std::string::npos;
    wrong += explain(comm, kind::reduce, 4).reason.find("does not commute") != std::string::npos;
  });
  CHECK(wrong == 0);
  const detail::select::selection_query ragged{
      .collective = kind::alltoall, .size = 3, .is_ragged = true, .has_streams = false};
  const auto e = detail::select::explain_choice(detail::select::candidates_for<kind::alltoall, false>, ragged,
                                                default_tuning::messages, nullptr, "table");
  CHECK((e.candidates.back().algorithm == "bruck" && !e.candidates.back().is_admitted &&
         e.candidates.back().remark == "takes equal parts only"));
}

// The transport's native collectives.

namespace {

/// One of four ranks over a library with native collectives for arithmetic types, which are never called.
struct over_a_library : self::transport {
  int size() const { return 4; }
  over_a_library split(int, int) { return {}; }
};

/// Rounds cost one second, and the native collective `seconds`.
tuning table_with_native(double seconds) {
  tuning t = favouring(pattern::rounds);
  t.rows[0].round = 1;
  t.native[0].ranks = 4;
  for (auto& times : t.native[0].seconds) times.fill(seconds);
  return t;
}

}  // namespace

template <>
struct kolo::native_of<over_a_library> {
  template <kind K, class T, class Op>
  static constexpr bool has() {
    return !kolo::detail::schedule::reduces(K) || std::is_arithmetic_v<T>;
  }
};

TEST_CASE("native times are linear between lengths, and those of the nearest number of ranks") {
  tuning t;
  CHECK(t.native_seconds(4, kind::allreduce, 8) == 0);
  t.native[0].ranks = 2, t.native[1].ranks = 8;
  auto& times = t.native[1].seconds[static_cast<std::size_t>(kind::allreduce)];
  double seconds = 1e-6;
  for (double& s : times) s = seconds, seconds *= 2;  // as the square root of the length: knots are a factor of 4 apart
  CHECK(t.native_seconds(2, kind::allreduce, 8) == 0);
  CHECK(t.native_seconds(8, kind::broadcast, 8) == 0);
  for (const int ranks : {5, 8, 100}) {
    CHECK(t.native_seconds(ranks, kind::allreduce, 0) == 1e-6);
    CHECK(t.native_seconds(ranks, kind::allreduce, 8) == Approx(1e-6));
    CHECK(t.native_seconds(ranks, kind::allreduce, 16) == Approx(4e-6 / 3));
    CHECK(t.native_seconds(ranks, kind::allreduce, 32) == Approx(2e-6));
    CHECK(t.native_seconds(ranks, kind::allreduce, 1 << 25) == Approx(2048e-6));
    CHECK(t.native_seconds(ranks, kind::allreduce, 1 << 27) == Approx(4 * 2048e-6));
  }
  times[5] = 0;  // an incomplete row does not count
  CHECK(t.native_seconds(8, kind::allreduce, 8) == 0);
}

TEST_CASE("a native collective is admitted if its bits cannot differ, or if the order is free") {
  using detail::select::may_be_native, detail::execute::none;
  constexpr auto fixed = order::fixed_for_size;
  using With = over_a_library;
  STATIC_REQUIRE(may_be_native<kind::broadcast, float, none, fixed, With>());
  STATIC_REQUIRE(may_be_native<kind::allreduce, int, sum_t, fixed, With>());
  STATIC_REQUIRE(may_be_native<kind::scan, std::uint64_t, max_t, fixed, With>());
  STATIC_REQUIRE(!may_be_native<kind::allreduce, float, sum_t, fixed, With>());
  STATIC_REQUIRE(!may_be_native<kind::allreduce, float, max_t, fixed,
                                With>());  // exact, but the library may return another NaN
  STATIC_REQUIRE(may_be_native<kind::allreduce, float, sum_t, order::any, With>());
  STATIC_REQUIRE(!may_be_native<kind::allreduce, float16, sum_t, order::any, With>());
  STATIC_REQUIRE(!may_be_native<kind::allreduce, int, left, fixed, With>());
  STATIC_REQUIRE(!may_be_native<kind::broadcast, float, none, fixed, self::transport>());
}

TEST_CASE("a native collective is a candidate with a time, or is listed with the reason why it is none") {
  communicator<over_a_library> comm;
  const auto told = [&](double seconds, kind k, std::size_t bytes, const explain_options& o = {}) {
    comm.engine()->named = std::make_unique<const tuning>(table_with_native(seconds));
    return explain(comm, k, bytes, o);
  };
  const auto e = told(0.5, kind::broadcast, 4096);
  CHECK((e.choice == "native" && e.candidates.front().algorithm == "native" &&
         e.candidates.front().seconds == Approx(0.5)));
  const auto ours = told(100, kind::broadcast, 4096);
  CHECK(ours.choice != "native");
  const auto a_trifle = told(0.96 * ours.candidates.front().seconds, kind::broadcast, 4096);  // it saves too little
  CHECK((a_trifle.choice == ours.choice && a_trifle.candidates.front().algorithm == "native"));
  CHECK(a_trifle.reason.find("but for the transport's own, which saves less than a twentieth") != std::string::npos);
  CHECK(ours.reason.find("the transport's own") == std::string::npos);
  CHECK(told(0.94 * ours.candidates.front().seconds, kind::broadcast, 4096).choice == "native");
  const auto refusal = [&](double seconds, kind k, std::size_t bytes, const explain_options& o) {
    const auto told_so = told(seconds, k, bytes, o);
    CHECK((told_so.choice != "native" && told_so.candidates.back().algorithm == "native" &&
           !told_so.candidates.back().is_admitted));
    return told_so.candidates.back().remark;
  };
  CHECK(refusal(1e-9, kind::allreduce, 4096, {}).find("only for order::any") != std::string::npos);
  CHECK(told(1e-9, kind::allreduce, 4096, {.allowed = order::any}).choice == "native");
  CHECK(refusal(1e-9, kind::broadcast, std::size_t{1} << 31, {}).find("2^31 - 1 bytes") != std::string::npos);
  CHECK(told(1e-9, kind::broadcast, (std::size_t{1} << 31) - 1).choice == "native");
  CHECK(refusal(1e-9, kind::alltoall, 4096, {.ragged = true}).find("do not know all counts") != std::string::npos);
  CHECK(told(1e-9, kind::allgather, 4096, {.ragged = true}).choice == "native");
  CHECK(refusal(0, kind::broadcast, 4096, {}).find("kolo::fit(comm) measures it") != std::string::npos);
  CHECK(refusal(1e-9, kind::broadcast, 4096, {.native = false}).find("not of these elements") != std::string::npos);
  const tuning slow = table_with_native(100);
  comm.engine()->fitted = std::make_unique<const tuning>(slow);
  comm.engine()->resolved.fitted_nodes = std::make_shared<const detail::select::node_schedules<>>(
      topology{.ranks_per_node = 1}, comm.size(), slow,
      []<kind K>() { return detail::select::candidates_over<K, over_a_library>(false); });
  const auto all = detail::select::candidates_in<kind::allgather, over_a_library>(
      {.size = comm.size(), .nodes = comm.engine()->resolved.fitted_nodes.get()});
  CHECK((all.back().is_native && std::string{all[all.size() - 2].name} == "two_level on 1 lane"));
  self::communicator alone;
  for (const auto& c : explain(alone, kind::broadcast, 4096).candidates) CHECK(c.algorithm != "native");
}

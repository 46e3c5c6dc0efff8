// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the selection of algorithms: counts, predictions, eligibility, cached choices, and when use_tuning is allowed.
#include <kolo/collective/fit.hpp>
#include <kolo/execute/self.hpp>
#include <kolo/launch/threads.hpp>

#include <barrier>
#include <string_view>

#include "collectives/small_calls_again.hpp"
#include "support/expect.hpp"

namespace {

using namespace kolo;
using detail::select::candidates_for, detail::select::choose, detail::select::selection_query;
using testing::expect, testing::good;

/// One of eight ranks, which never communicates.
struct one_of_eight : self::transport {
  int size() const { return 8; }
  one_of_eight split(int, int) { return {}; }
};
using eight = detail::execute::engine<one_of_eight>;

template <kind K>
std::string_view name_of(const detail::execute::resolved_call& how) {
  for (const auto& c : candidates_for<K, false>)
    if (c.schedule(8).self == how.schedule.self) return c.name;
  return "none";
}

tuning table_of(double round, double message, double byte) {
  tuning t;
  t.rows[0] = {.ranks = 8, .runs_as = pattern::rounds, .round = round, .message = message};
  t.rows[0].bytes.fill(byte);
  return t;
}
const tuning few_rounds = table_of(1, 0, 0), few_messages = table_of(0, 1, 0), few_bytes = table_of(0, 0, 1);

void sizes() {
  unsigned last = 0;
  for (std::size_t n = 1; n < 5000; ++n) {
    const unsigned c = detail::select::size_class(n);
    expect(c >= last && detail::select::least_of_class(c) <= n && (c == last || detail::select::least_of_class(c) == n),
           "size_class grows, and least_of_class is its least size");
    last = c;
  }
  expect(detail::select::size_class(64) + 4 == detail::select::size_class(128), "four classes per doubling");
}

void tables() {
  tuning t;
  for (std::size_t i = 0; const int ranks : {2, 4, 16}) t.rows[i++] = {.ranks = ranks, .runs_as = pattern::rounds};
  expect(t.row_for(3, pattern::rounds)->ranks == 4 && t.row_for(5, pattern::exchange)->ranks == 4 &&
             t.row_for(99, pattern::rounds)->ranks == 16,
         "the nearest row");
  t.rows[1].bytes = {1, 2, 3, 4, 5, 6};
  expect(t.seconds(4, pattern::rounds, 1 << 13, {.bytes = 10}) == 20 &&
             t.seconds(4, pattern::rounds, 1 << 30, {.bytes = 10}) == 60,
         "the constants of a length");
}

void loads() {
  const auto& all = candidates_for<kind::allreduce, false>;
  for (const auto& c : all) {
    const auto load = detail::select::workload_of(c.schedule(8), kind::allreduce, 8, 8000, c.is_relative);
    const std::string_view name = c.name;
    if (name == "recursive_doubling")
      expect(load.rounds == 3 && load.duplex_rounds == 3 && load.hops == 3 && load.bytes == 24000 &&
                 load.combined == 24000 && load.shared == 24000,
             "the workload of recursive doubling");
    if (name == "ring")
      expect(load.rounds == 14 && load.duplex_rounds == 14 && load.bytes == 14000 && load.combined == 7000,
             "the workload of a ring");
  }
  const auto tree = candidates_for<kind::broadcast, false>[0];
  const auto load = detail::select::workload_of(tree.schedule(8), kind::broadcast, 8, 8000, tree.is_relative);
  expect(load.duplex_rounds == 0 && load.hops == 3 && load.messages == 3 && load.shared == 7000,
         "the workload of a tree");
}

/// The query of a call.
template <kind K, class T>
detail::execute::choice asks(const detail::execute::engine<T>&, bool commutes = true,
                             order allowed = order::fixed_for_size, bool may_be_native = false) {
  return {K, commutes, allowed, may_be_native, &detail::select::candidates_in<K, T>};
}

/// An engine with this table, and this fit.
struct asked : eight {
  explicit asked(const tuning& table, const tuning* fit = nullptr) {
    named = std::make_unique<const tuning>(table);
    if (fit) fitted = std::make_unique<const tuning>(*fit);
  }
};

template <bool Commutes, order Allowed>
std::string_view reduced(eight& e, bool converts = false) {
  return name_of<kind::allreduce>(choose(e, asks<kind::allreduce>(e, Commutes, Allowed), 1 << 20, false, converts));
}

void answers() {
  asked e{few_messages};
  const auto parts = [&](bool ragged) {
    return name_of<kind::alltoall>(choose(e, asks<kind::alltoall>(e), 0, ragged, false));
  };
  expect(!e.has_chosen && parts(false) == "bruck" && e.has_chosen, "has_chosen is set by a choice");
  expect(parts(true) == "one_shot" && parts(false) == "bruck", "ragged parts, and equal ones");
  asked f{few_bytes};
  const auto at_will = reduced<true, order::fixed_for_size>(f), in_order = reduced<false, order::fixed_for_size>(f);
  expect(at_will == "circulant" && in_order != at_will, "fewest bytes, with and without commutativity");
  for (const auto& c : candidates_for<kind::allreduce, false>)
    expect(selection_query{.collective = kind::allreduce, .size = 8, .commutes = false}.is_eligible(c) == c.is_ordered,
           "a candidate without an order is not eligible");
}

/// Six rounds with 14/8 of the vector, or three rounds with three times the vector: equal times, but for rounding.
void ties() {
  const selection_query q{.collective = kind::allreduce, .size = 8, .bytes = 1024, .has_streams = false};
  const detail::select::candidate both[] = {
      detail::select::candidate_of<detail::select::stateless<circulant::allreduce>>("more rounds"),
      detail::select::candidate_of<detail::select::stateless<recursive_doubling::allreduce>>("more bytes")};
  for (const double more : {-1e-12, 0.0, 1e-12})
    expect(detail::select::fastest(both, q, table_of((1 + more) * 1280e-9 / 3, 0, 1e-9)) == 0,
           "the first of equal candidates");
}

void bits() {
  asked e{few_rounds, &few_bytes};  // one_shot has one round; two_shot and others send 7/4 of the vector
  expect(reduced<true, order::fixed_for_size>(e) == "two_shot", "a fit decides between candidates of one tree");
  expect(reduced<true, order::fixed_for_size>(e, true) == "one_shot",
         "a fit does not decide if elements are converted");
  expect(reduced<true, order::any>(e, true) == "circulant", "a fit decides if any order is allowed");
  asked f{few_messages, &few_rounds};
  expect(reduced<true, order::fixed_for_size>(f) == "recursive_doubling", "a fit does not change the order");
  expect(reduced<true, order::any>(f) == "one_shot", "a fit may change the order if any is allowed");
  expect(name_of<kind::broadcast>(choose(f, asks<kind::broadcast>(f), 8, false, false)) == "one_shot",
         "a broadcast has no order");
}

void places() {
  using detail::execute::call_cache;
  call_cache cache;
  const std::uint64_t key = 7, other = 66;
  expect(cache.index_of(key) == cache.index_of(other), "two keys of the same index");
  for (const auto k : {key, other}) cache.entry_for(k).key = k;
  expect(cache.entry_for(key).key == key && cache.entry_for(other).key == other, "both entries are kept");
  call_cache::small_key one{.what = 1, .count = 1}, two = one;
  do ++two.what;
  while (&cache.small(one) != &cache.small(two));
  cache.small(one).key = one;
  auto& there = cache.small(two);
  expect(!(there.key == one) && !(there.key == two), "the second entry has a place");
  there.key = two;
  expect(cache.small(one).key == one, "the first entry is kept");
}

/// The same, with a library that has native collectives for everything, and is never called.
struct with_a_library : one_of_eight {
  with_a_library split(int, int) { return {}; }
};

tuning table_with_native(double seconds) {
  tuning t = few_rounds;
  t.native[0].ranks = 8;
  for (auto& times : t.native[0].seconds) times.fill(seconds);
  return t;
}

}  // namespace

template <>
struct kolo::native_of<with_a_library> {
  template <kind K, class T, class Op>
  static constexpr bool has() {
    return true;
  }
};

namespace {

void natives() {
  tuning t = table_with_native(1);
  auto& times = t.native[0].seconds[0];
  for (std::size_t i = 0; i < times.size(); ++i) times[i] = static_cast<double>(1 << i);
  expect(t.native_seconds(8, kind::allreduce, 8) == 1 && t.native_seconds(8, kind::allreduce, 32) == 2,
         "the time at a measured length");
  expect(t.native_seconds(8, kind::allreduce, 16) > 1.3 && t.native_seconds(8, kind::allreduce, 16) < 1.4,
         "the time between two lengths");
  expect(t.native_seconds(8, kind::allreduce, std::size_t{1} << 26) == 2 * times.back(),
         "the time beyond the last length");
  detail::execute::engine<with_a_library> e;
  e.named = std::make_unique<const tuning>(table_with_native(1e-9));
  const auto is_taken = [&]<kind K, bool Native>(std::size_t bytes, bool is_ragged) {
    return choose(e, asks<K>(e, true, order::any, Native), bytes, is_ragged, false).is_native;
  };
  expect(is_taken.operator()<kind::allreduce, true>(64, false), "native, if it is fastest");
  detail::execute::engine<with_a_library> other;
  other.named = std::make_unique<const tuning>(table_with_native(0.97));  // one_shot takes 1
  expect(!choose(other, asks<kind::allreduce>(other, true, order::any, true), 64, false, false).is_native,
         "not native for a small gain");
  expect(!is_taken.operator()<kind::allreduce, false>(64, false), "not native if the library lacks it");
  expect(!is_taken.operator()<kind::allreduce, true>(std::size_t{1} << 31, false), "not native for 2^31 bytes");
  expect(!is_taken.operator()<kind::alltoall, true>(64, true) && is_taken.operator()<kind::alltoall, true>(64, false),
         "not native if ranks do not know the counts");
  e.named = std::make_unique<const tuning>(few_rounds);
  expect(!is_taken.operator()<kind::broadcast, true>(64, false), "not native if it was not measured");
  using detail::select::may_be_native;
  expect(may_be_native<kind::allreduce, int, max_t, order::fixed_for_size, with_a_library>() &&
             !may_be_native<kind::allreduce, float, max_t, order::fixed_for_size, with_a_library>(),
         "a native maximum is for integers only");
}

template <class F>
bool is_refused(F f) {
  try {
    f();
  } catch (const error& e) {
    return true;
  }
  return false;
}

void named_tables() {
  std::barrier everybody{2};
  threads::run(2, [&](auto& comm) {
    auto late = comm.split(0, comm.rank()), two = comm.split(0, comm.rank()), other = comm.split(0, comm.rank());
    comm.engine()->fitted = std::make_unique<const tuning>(few_bytes);
    use_tuning(comm, few_rounds);
    expect(comm.engine()->named && !comm.engine()->fitted, "a named table replaces a fitted one");
    expect(comm.split(0, 0).engine()->named != nullptr, "split passes the table on");
    float x = 1;
    allreduce(late, std::span{&x, 1}, sum);
    everybody.arrive_and_wait();
    expect(is_refused([&] { use_tuning(late, few_rounds); }), "use_tuning after a call is refused");
    expect(is_refused([&] { use_tuning(two, comm.rank() == 0 ? few_rounds : few_bytes); }),
           "different tables are refused");
    expect(is_refused([&] { use_tuning(other, table_with_native(comm.rank() + 1)); }),
           "different native times are refused");
  });
}

void made_again() {
  expect(testing::small_calls_with_other_slots(), "a plan is only reused for slots of its length");
  threads::run(3, [](auto& comm) { expect(testing::small_calls_again(comm), "each small call gives its own result"); },
               {.timeout = std::chrono::seconds{10}});
}

}  // namespace

int main() {
  made_again();
  sizes();
  tables();
  loads();
  answers();
  ties();
  bits();
  places();
  natives();
  named_tables();
  return good ? 0 : 1;
}

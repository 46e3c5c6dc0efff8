// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The epilogue of the last reduction is called once for each final element; an update in the epilogue gives the bits of an update after the reduction.
#include <kolo/kolo.hpp>
#include <kolo/train/sharded.hpp>

#include "support/catch.hpp"
#include "support/message_threads.hpp"
#include "train/model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>

using namespace testing;

namespace {

constexpr std::size_t slot_bytes = 2048, sizes[] = {0, 1, 3, 1000, 5001};  // no element on some ranks; several pieces

/// How many times the epilogue got each element of an output, and whether it was final.
struct recorder {
  const std::int64_t* out;
  std::size_t first;  ///< of the block, in the whole vector
  int ranks;
  std::vector<int> counts;
  bool were_final = true;

  void record(std::size_t i, std::size_t count) {
    for (const std::size_t end = i + count; i < end; ++i) {
      ++counts[i];
      were_final = were_final && out[i] == static_cast<std::int64_t>(first + i) * ranks + ranks * (ranks - 1) / 2;
    }
  }
};

template <class Algorithm>
void follow(tally& t, auto& comm, const Algorithm& algorithm, std::size_t n, bool in_place, int tensors) {
  const auto own = kolo::block(n, comm.size(), comm.rank());
  std::vector<std::int64_t> in(n), apart(own.count);
  std::int64_t* const place = in_place ? in.data() + own.first : apart.data();
  std::vector<std::span<std::int64_t>> parts;
  for (std::size_t i = 0, k = 0; k < static_cast<std::size_t>(tensors); ++k) {
    const std::size_t end = own.count * (k + 1) / static_cast<std::size_t>(tensors);
    parts.emplace_back(place + i, end - i), i = end;
  }
  const kolo::bucket out{parts};
  recorder w{place, own.first, comm.size(), {}};
  const kolo::detail::execute::epilogue then{
      [](void* self, std::size_t i, std::size_t count) { static_cast<recorder*>(self)->record(i, count); }, &w};
  const kolo::detail::collective::followed<kolo::bucket<std::int64_t>> followed{out, &then};
  for (int blocking = 0; blocking < 2; ++blocking) {
    for (std::size_t i = 0; i < n; ++i) in[i] = static_cast<std::int64_t>(i) + comm.rank();
    w.counts.assign(own.count, 0);
    if (blocking == 1) kolo::reduce_scatter(comm, in, followed, kolo::sum, algorithm);
    else kolo::start_reduce_scatter(comm, in, followed, kolo::sum, algorithm).wait();
    t.expect(w.were_final && std::all_of(w.counts.begin(), w.counts.end(), [](int times) { return times == 1; }));
  }
}

template <class Run>
void follow_all(Run run) {
  for (const int p : {1, 2, 3, 4, 6}) {
    tally t;
    run(p, [&](auto& comm) {
      const auto each = [&](const auto& algorithm) {
        for (const std::size_t n : sizes)
          for (const bool in_place : {false, true}) follow(t, comm, algorithm, n, in_place, n == 1000 ? 3 : 1);
      };
      each(kolo::ring{}), each(kolo::circulant{}), each(kolo::one_shot{}), each(kolo::two_shot{}),
          each(kolo::recursive_halving{}), each(kolo::pairwise{});
      each(kolo::two_level<>{});
      each(kolo::automatic{}), each(kolo::ordered<kolo::order::any>(kolo::automatic{}));
    });
    INFO("ranks " << p);
    CHECK(t.wrong == 0);
  }
}

/// A rule that records the length of the longest span it was called with.
template <class Rule>
struct observed : Rule {
  std::size_t* longest;
  template <class T>
  void operator()(std::span<T> value, std::span<const T> gradient, const std::array<std::span<T>, Rule::states>& state,
                  long step) const {
    *longest = std::max(*longest, value.size());
    Rule::operator()(value, gradient, state, step);
  }
};

/// Numbers whose sums have different bits in different orders of addition.
void fill(model& m, int rank, int step) {
  auto x = static_cast<std::uint32_t>(7919 * rank + 104'729 * step + 1);
  for (auto& tensor : m.gradients)
    for (float& g : tensor)
      x = x * 1664525u + 1013904223u, g = static_cast<float>(static_cast<std::int32_t>(x)) * 1e-9f;
}

const std::vector<std::size_t> tensors{3001, 5, 0, 9000, 333};
constexpr kolo::optimizer_options three_buckets{.bucket_bytes = 20'000};

/// One model is updated in the epilogue, the other after the reduction, because it is synchronized first, or also marked ready before, with a helper or
/// without.
template <class Rule, class Algorithm, class Op = kolo::average_t>
void same_bits(tally& t, auto& comm, const Rule& rule, Algorithm algorithm, Op op = {},
               kolo::background* helper = nullptr) {
  model passing{tensors}, behind{tensors};
  std::size_t in_passing = 0, as_a_whole = 0;
  auto options = three_buckets;
  kolo::sharded_optimizer first{comm, observed<Rule>{rule, &in_passing}, passing.parameters(), op, algorithm, options};
  options.helper = helper;
  kolo::sharded_optimizer second{comm, observed<Rule>{rule, &as_a_whole}, behind.parameters(), op, algorithm, options};
  for (int step = 0; step < 3; ++step) {
    for (model* m : {&passing, &behind}) fill(*m, comm.rank(), step);
    first.step();
    const auto before = behind.values;
    if (helper || step > 0)
      for (std::size_t i = tensors.size(); i-- > 0;) second.ready(i);
    if (step < 2) second.synchronize(), t.expect(behind.values == before);
    second.step();
    t.expect(passing.values == behind.values && passing.gradients == behind.gradients);
  }
  if (comm.size() > 1) t.expect(in_passing * sizeof(float) <= slot_bytes);
  if (std::is_same_v<Algorithm, kolo::ring>) t.expect(as_a_whole >= tensors[3] / static_cast<std::size_t>(comm.size()));
}

template <class Run>
void same_bits_by_all(Run run) {
  for (const int p : {1, 2, 3, 4}) {
    tally t;
    run(p, [&](auto& comm) {
      const kolo::update::adamw rule{.rate = 0.1};
      same_bits(t, comm, kolo::update::momentum{.rate = 0.1, .weight_decay = 0.01}, kolo::ring{});
      same_bits(t, comm, rule, kolo::ring{});
      same_bits(t, comm, rule, kolo::two_level<>{});
      same_bits(t, comm, rule, kolo::automatic{});
      same_bits(t, comm, rule, kolo::ordered<kolo::order::any>(kolo::automatic{}));
      same_bits(t, comm, rule, kolo::ring{}, kolo::wire<kolo::float16>(kolo::average));
      same_bits(t, comm, rule, kolo::circulant{}, kolo::predivide(kolo::average, 8));
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      same_bits(t, comm, rule, kolo::ring{}, kolo::sum, &exchange);
    });
    INFO("ranks " << p);
    CHECK(t.wrong == 0);
  }
}

constexpr auto on_slots = [](int p, auto f) { kolo::threads::run(p, f, {.slot_bytes = slot_bytes}); };
constexpr auto on_messages = [](int p, auto f) { run_message_threads(p, f, {.slot_bytes = slot_bytes}); };

}  // namespace

TEST_CASE("slots: with each algorithm, an epilogue gets each element once, when it is final") { follow_all(on_slots); }
TEST_CASE("messages: with each algorithm, an epilogue gets each element once, when it is final") {
  follow_all(on_messages);
}
TEST_CASE("slots: an update in the epilogue has the bits of an update after the reduction") {
  same_bits_by_all(on_slots);
}
TEST_CASE("messages: an update in the epilogue has the bits of an update after the reduction") {
  same_bits_by_all(on_messages);
}

TEST_CASE("by_those_left: the mean is known after the reduction only, and so the update follows it") {
  tally t;
  on_slots(3, [&](auto& comm) {
    model mine{{40}}, reference{{40}};
    kolo::replicated alone{kolo::update::sgd{.rate = 0.5}};
    kolo::sharded_optimizer optimizer{
        comm, kolo::update::sgd{.rate = 0.5}, mine.parameters(), {.inputs = kolo::uneven::by_those_left}};
    const int steps = comm.rank() == 0 ? 2 : 3;
    for (int step = 0; step < steps; ++step) mine.set_gradients(comm.rank(), step), optimizer.step();
    t.expect(optimizer.join() == static_cast<std::size_t>(3 - steps));
    for (int step = 0; step < 3; ++step) {
      step < 2 ? reference.set_sums(0, 3, step, 3) : reference.set_sums(1, 2, step, 2);
      step_alone(alone, reference);
    }
    for (std::size_t i = 0; i < 40; ++i) t.expect(std::abs(mine.values[0][i] - reference.values[0][i]) < 1e-4f);
  });
  CHECK(t.wrong == 0);
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buckets and their exchange during the backward pass: the plan, any order of `ready`, a helper thread, and the hidden fraction.
#include <kolo/launch/threads.hpp>
#include <kolo/simulate/simulated.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/update.hpp>

#include "support/catch.hpp"
#include "train/model.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

using namespace testing;
using indices = std::vector<std::size_t>;

namespace {

std::vector<indices> parameters_of(const kolo::bucket_plan& plan) {
  std::vector<indices> all;
  for (const auto& b : plan.buckets) all.push_back(b.parameters);
  return all;
}

std::vector<kolo::detail::train::planned_tensor> floats(const indices& sizes) {
  std::vector<kolo::detail::train::planned_tensor> all;
  for (const std::size_t n : sizes) all.push_back({.elements = n, .element_bytes = 4});
  return all;
}

const std::vector<std::size_t> sizes{5, 0, 300, 41, 7, 1, 120};

/// Three steps; calls `ready` in this rank's random order, or not at all.
template <class Comm>
bool trains_right(Comm& comm, bool calls_ready, kolo::background* helper) {
  model mine{sizes}, reference{sizes};
  const int p = comm.size();
  std::mt19937 order{static_cast<unsigned>(comm.rank())};
  kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), {.bucket_bytes = 200, .helper = helper}};
  bool right = optimizer.buckets().buckets.size() == 4 && optimizer.buckets().cap_bytes == 200;
  for (int step = 0; step < 3; ++step) {
    indices tensors(sizes.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) tensors[t] = t;
    std::shuffle(tensors.begin(), tensors.end(), order);
    const auto before = mine.values;
    for (const std::size_t t : tensors) {
      mine.set_gradient(comm.rank(), step, t);
      if (calls_ready) optimizer.ready(t);
    }
    optimizer.synchronize();
    right = right && mine.values == before;
    optimizer.step();
    reference.set_sums(0, p, step, static_cast<float>(p));
    descent alone;
    step_alone(alone, reference);
    right = right && mine.values == reference.values;
  }
  return right;
}

}  // namespace

TEST_CASE("plan_buckets goes from the last parameter to the first, and closes a bucket before it exceeds the cap") {
  const auto elements = floats({10, 20, 30, 1000, 5, 5});
  const auto plan = kolo::detail::train::plan_buckets(elements, 200);
  CHECK(parameters_of(plan) == std::vector<indices>{{5, 4}, {3}, {2, 1}, {0}});
  CHECK(plan.buckets[2].elements == 50);
  CHECK(plan.message() ==
        "4 buckets of at most 200 bytes\n  0: 40 bytes, 2 tensors: parameter 5 ... parameter 4\n"
        "  1: 4000 bytes, 1 tensor: parameter 3\n  2: 200 bytes, 2 tensors: parameter 2 ... parameter 1\n"
        "  3: 40 bytes, 1 tensor: parameter 0\n");
  CHECK(kolo::detail::train::plan_buckets(floats({10}), 200).message() ==
        "1 bucket of at most 200 bytes\n  0: 40 bytes, 1 tensor: parameter 0\n");
}

TEST_CASE("plan_buckets: a group is one bucket, unplanned tensors are in none, and a wrong group is refused") {
  const auto elements = floats({10, 20, kolo::detail::train::not_planned, 40, 5});
  const auto plan = kolo::detail::train::plan_buckets(elements, 100, {{0, 3}});
  CHECK(parameters_of(plan) == std::vector<indices>{{4, 1}, {3, 0}});
  for (const indices& wrong : {indices{2}, indices{7}, indices{1, 1}})
    CHECK(contains(words_of([&] { kolo::detail::train::plan_buckets(elements, 0, {wrong}); }),
                   "group 0 names parameter"));
}

TEST_CASE("the chosen cap makes buckets longer where a message takes longer") {
  const auto cap = [](double latency) {
    std::size_t found = 0;
    kolo::virtual_time::run(4, kolo::simulate::network{.latency = latency}, [&](auto& comm) {
      using transport = typename std::remove_cvref_t<decltype(comm)>::transport_type;
      const auto candidates = &kolo::detail::select::candidates_in<kolo::kind::allreduce, transport>;
      if (comm.rank() == 0)
        found =
            kolo::detail::train::chosen_cap(*comm.engine(), kolo::kind::allreduce, candidates, std::size_t{1} << 28);
    });
    return found;
  };
  CHECK(cap(0) == std::size_t{1} << 20);
  CHECK(cap(1e-3) > cap(1e-4));
  CHECK(cap(1e-4) > cap(1e-6));
}

TEST_CASE("a digest of bytes is the same in every build, and each byte counts") {
  const auto of = [](const std::string& bytes) {
    kolo::detail::core::digest d{bytes.size()};
    return d.add_bytes(bytes), d.value;
  };
  CHECK(of("model.7.checkpoint") == 0xa104f9bb2bfb8437u);
  std::set<std::uint64_t> all;
  for (std::size_t n = 0; n <= 17; ++n) {
    all.insert(of(std::string(n, '\0')));
    for (std::size_t i = 0; i < n; ++i) all.insert(of(std::string(i, '\0') + 'x' + std::string(n - 1 - i, '\0')));
  }
  CHECK(all.size() == 18 + 17 * 18 / 2);
}

TEST_CASE("ranks that plan different buckets all get an error") {
  tally t;
  kolo::threads::run(3, [&](auto& comm) {
    model mine{{10, comm.rank() == 1 ? 21u : 20u}};
    const auto why = words_of([&] { kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters()}; });
    t.expect(contains(why, "ranks plan different buckets"));
  });
  kolo::threads::run(2, [&](auto& comm) {  // as many numbers of another type
    const auto make = [&](auto x) {
      struct tensors {
        std::vector<decltype(x)> value, gradient;
      };
      std::vector all{tensors{std::vector{x}, std::vector{x}}};
      kolo::distributed_optimizer optimizer{comm, kolo::replicated<kolo::update::sgd, decltype(x)>{{}}, all};
    };
    const auto why = words_of([&] { comm.rank() == 0 ? make(1.0f) : make(1.0); });
    t.expect(contains(why, "ranks plan different buckets"));
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("each step takes the mean, for any order of ready, and if some ranks never call it") {
  tally t;
  for (const int p : {1, 2, 3, 4})
    kolo::threads::run(p, [&](auto& comm) {
      t.expect(trains_right(comm, true, nullptr));
      t.expect(trains_right(comm, comm.rank() % 2 == 0, nullptr));
    });
  CHECK(t.wrong == 0);
}

TEST_CASE("a user's thread exchanges while another computes") {
  tally t;
  for (const int p : {1, 2, 4})
    kolo::threads::run(p, [&](auto& comm) {
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      t.expect(trains_right(comm, true, &exchange));
      t.expect(trains_right(comm, comm.rank() == 0, &exchange));
    });
  CHECK(t.wrong == 0);
}

TEST_CASE("a helper waiting for gradients is interrupted and helps again later; one without a thread is an error") {
  tally t;
  for (const int p : {1, 2})
    kolo::threads::run(p, [&](auto& comm) {
      model mine{sizes};
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      kolo::distributed_optimizer optimizer{
          comm, descent{}, mine.parameters(), {.bucket_bytes = 200, .helper = &exchange}};
      optimizer.ready(6);
      t.expect(contains(words_of([&] { optimizer.ready(6); }), "parameter 6 was ready twice"));
      t.expect(contains(words_of([&] { optimizer.step(); }), "is not ready"));
      if (p > 1) return;  // the communicator has failed
      for (int step = 0; step < 2; ++step) {
        for (std::size_t i = 6 - (step == 0 ? 1 : 0); i + 1 > 0; --i) optimizer.ready(i);
        t.expect(optimizer.step());
      }
    });
  kolo::threads::run(1,
                     [&](auto& comm) {
                       model mine{sizes};
                       kolo::background nobody;
                       kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), {.helper = &nobody}};
                       for (std::size_t i = 0; i < sizes.size(); ++i) optimizer.ready(i);
                       t.expect(contains(words_of([&] { optimizer.step(); }), "that no thread runs"));
                       t.expect(optimizer.step());
                       std::latch comes{2};
                       std::jthread helper{[&](std::stop_token stop) { comes.arrive_and_wait(), nobody.run(stop); }};
                       comes.arrive_and_wait();
                       for (std::size_t i = 0; i < sizes.size(); ++i) optimizer.ready(i);
                       t.expect(optimizer.step());
                     },
                     {.timeout = std::chrono::seconds{2}});  // in which the helper must begin
  CHECK(t.wrong == 0);
  kolo::threads::run(1, [&](auto& comm) {  // without waiting for the timeout of minutes
    model mine{sizes};
    kolo::background exchange;
    std::jthread{[&](std::stop_token stop) { exchange.run(stop); }};
    kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), {.helper = &exchange}};
    for (std::size_t i = 0; i < sizes.size(); ++i) optimizer.ready(i);
    const auto before = std::chrono::steady_clock::now();
    CHECK(contains(words_of([&] { optimizer.step(); }), "that no thread runs"));
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::minutes{1});
  });
}

TEST_CASE("a helper that has an optimizer's exchange refuses another's, and then ends the first and serves the other") {
  tally t;
  for (const int p : {1, 2})
    kolo::threads::run(p, [&](auto& comm) {
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      model one{sizes}, two{sizes}, reference{sizes};
      kolo::distributed_optimizer first{comm, descent{}, one.parameters(), {.bucket_bytes = 200, .helper = &exchange}},
          second{comm, descent{}, two.parameters(), {.bucket_bytes = 200, .helper = &exchange}};
      for (model* m : {&one, &two}) m->set_gradients(comm.rank(), 0);
      first.ready(6);
      for (int again = 0; again < 2; ++again)
        t.expect(contains(words_of([&] { second.ready(6); }), "a background of its own, or end the other's exchange"));
      for (std::size_t i = 0; i < 6; ++i) first.ready(i);
      first.synchronize(), first.step();
      for (std::size_t i = 0; i < sizes.size(); ++i) second.ready(i);
      second.step();
      reference.set_sums(0, p, 0, static_cast<float>(p));
      descent alone;
      step_alone(alone, reference);
      t.expect(one.values == reference.values && two.values == reference.values);
    });
  CHECK(t.wrong == 0);
}

/// A sum that tells which thread has finished it, also on one rank.
struct signed_sum {
  std::thread::id* by;
  float operator()(float a, float b) const { return a + b; }
  float finish(float x, int) const { return *by = std::this_thread::get_id(), x; }
};
TEST_CASE("the last ready of a bucket begins its exchange; a helper makes it, also after it was called off") {
  for (const bool is_helped : {false, true})
    kolo::threads::run(1, [&](auto& comm) {
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      model mine{{3, 4}};
      std::thread::id by;
      kolo::distributed_optimizer optimizer{comm,
                                            descent{},
                                            mine.parameters(),
                                            signed_sum{&by},
                                            {.bucket_bytes = 16, .helper = is_helped ? &exchange : nullptr}};
      for (int step = 0; step < 2; ++step) {
        by = {};
        optimizer.ready(1);
        if (step == 0) CHECK(contains(words_of([&] { optimizer.step(); }), "is not ready"));
        if (!is_helped) CHECK(by == std::this_thread::get_id());
        optimizer.ready(0), optimizer.step();
        if (step == 1) CHECK(by == (is_helped ? helper.get_id() : std::this_thread::get_id()));
      }
    });
}

TEST_CASE("of two threads that run one background, one takes each exchange") {
  kolo::background exchange;
  const auto run = [&](std::stop_token stop) { exchange.run(stop); };
  const std::jthread one{run}, other{run};
  std::atomic<int> calls = 0;
  const auto work = [](void* count) {
    ++*static_cast<std::atomic<int>*>(count);
    std::this_thread::yield();
  };
  for (int i = 1; i <= 500; ++i) {
    exchange.lend(work, &calls);
    exchange.take_back(std::chrono::minutes{1});
  }
  CHECK(calls == 500);
  exchange.lend([](void*) { throw std::runtime_error{"the work threw"}; }, nullptr);
  CHECK_THROWS_AS(exchange.take_back(std::chrono::minutes{1}), std::runtime_error);
  exchange.lend(work, &calls);
  exchange.take_back(std::chrono::minutes{1});
}

TEST_CASE("an optimizer may outlive its communicator, even before its first step") {
  kolo::threads::run(2, [&](auto& comm) {
    model mine{sizes};
    auto parameters = mine.parameters();
    std::optional group{comm.split(0, comm.rank())};
    const kolo::distributed_optimizer optimizer{*group, descent{}, parameters};
    group.reset();
  });
}

TEST_CASE("an exchange during the backward pass is hidden, and the report says how much") {
  const auto seconds = [](bool calls_ready, double& hidden) {
    return kolo::virtual_time::run(
               4, kolo::simulate::network{},
               [&](auto& comm) {
                 model mine{std::vector<std::size_t>(16, 100'000)};
                 kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), {.bucket_bytes = 800'000}};
                 for (std::size_t i = 16; i-- > 0;) {
                   comm.transport().compute(100e-6);
                   if (calls_ready) optimizer.ready(i);
                   for (int k = 0; k < 5 && calls_ready; ++k) comm.transport().compute(20e-6), optimizer.progress();
                   if (!calls_ready) comm.transport().compute(100e-6);
                 }
                 optimizer.step();
                 if (comm.rank() == 0) hidden = optimizer.overlap().hidden();
               })
        .seconds;
  };
  double hidden_with = 0, hidden_without = 1;
  const double with = seconds(true, hidden_with), without = seconds(false, hidden_without);
  INFO(with << " s with overlap, " << without << " s without; hidden " << hidden_with << " and " << hidden_without);
  CHECK(with < 0.9 * without);
  CHECK(hidden_with > 0.3);
  CHECK(hidden_without < 0.01);
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replicated and sharded optimizers: p ranks with one batch each train like one rank with all batches, and like each other.
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/sharded.hpp>

#include "support/catch.hpp"
#include "train/model.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

using namespace testing;

namespace {

/// Pseudo-random numbers in [-0.5, 0.5), the same on each rank.
float noise(std::uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15u;
  i = (i ^ (i >> 31)) * 0xbf58476d1ce4e5b9u;
  return static_cast<float>(static_cast<double>(i >> 40) / static_cast<double>(1 << 24) - 0.5);
}

constexpr std::size_t inputs = 13, hidden = 17;

/// Two layers with a tanh between them, and the function that they learn.
struct network : model {
  network() : model{{inputs * hidden, hidden, hidden}} {
    for (std::size_t t = 0; t < 3; ++t)
      for (std::size_t i = 0; i < values[t].size(); ++i) values[t][i] = noise(1000 * t + i);
  }
  /// Gradients as means over samples first ... first + count - 1.
  void backward(std::size_t first, std::size_t count) {
    for (auto& g : gradients) std::fill(g.begin(), g.end(), 0.0f);
    for (std::size_t s = first; s < first + count; ++s) {
      float x[inputs], h[hidden], wanted = 0, got = 0;
      for (std::size_t i = 0; i < inputs; ++i) x[i] = noise(s * inputs + i + 77'777);
      for (std::size_t i = 0; i < inputs; ++i) wanted += x[i] * x[(i + 1) % inputs];
      for (std::size_t j = 0; j < hidden; ++j) {
        float sum = values[1][j];
        for (std::size_t i = 0; i < inputs; ++i) sum += values[0][j * inputs + i] * x[i];
        got += values[2][j] * (h[j] = std::tanh(sum));
      }
      for (std::size_t j = 0; j < hidden; ++j) {
        const float error = (got - wanted) / static_cast<float>(count),
                    below = error * values[2][j] * (1 - h[j] * h[j]);
        gradients[2][j] += error * h[j];
        gradients[1][j] += below;
        for (std::size_t i = 0; i < inputs; ++i) gradients[0][j * inputs + i] += below * x[i];
      }
    }
  }
};

/// A sum that tells when its rank has begun to add.
struct telling_sum {
  std::atomic<bool>* begun;
  float operator()(float a, float b) const {
    *begun = true;
    return a + b;
  }
};

/// Whether three updates by the rule have, up to `error`, the values of formula(value, gradient, states, step).
template <class T, class Rule>
bool follows(const Rule& rule, double error, auto formula) {
  constexpr std::size_t n = 300;  // more than a rule takes at once
  std::vector<T> value(n, 1), gradient(n), states(Rule::states * n);
  std::array<std::span<T>, Rule::states> of_rule;
  for (std::size_t k = 0; k < Rule::states; ++k) of_rule[k] = std::span{states}.subspan(k * n, n);
  std::vector<double> wanted(n, 1);
  std::vector<std::array<double, 2>> of_formula(n);
  bool good = true;
  for (long step = 1; step <= 3; ++step) {
    for (std::size_t i = 0; i < n; ++i) gradient[i] = static_cast<T>(noise(300 * static_cast<std::size_t>(step) + i));
    rule(std::span<T>{value}, std::span<const T>{gradient}, of_rule, step);
    for (std::size_t i = 0; i < n; ++i) {
      formula(wanted[i], static_cast<double>(gradient[i]), of_formula[i], static_cast<double>(step));
      good &= std::abs(static_cast<double>(value[i]) - wanted[i]) < error;
    }
  }
  return good;
}

using weights = std::vector<std::vector<float>>;
constexpr std::size_t global_batch = 12, steps = 40;

/// `make(comm, parameters)` returns the optimizer. Returns the final weights of rank `shown`.
template <class Make>
weights trained(int ranks, Make make, int shown = 0) {
  weights result;
  kolo::threads::run(ranks, [&](auto& comm) {
    network mine;
    auto parameters = mine.parameters();
    auto optimizer = make(comm, parameters);
    const std::size_t batch = global_batch / static_cast<std::size_t>(ranks);
    for (std::size_t s = 0; s < steps; ++s) {
      mine.backward(s * global_batch + static_cast<std::size_t>(comm.rank()) * batch, batch);
      optimizer->step();
    }
    if (comm.rank() == shown) result = mine.values;
  });
  return result;
}
template <class Rule, class Algorithm = kolo::automatic>
weights by_replicas(int ranks, const Rule& rule, Algorithm algorithm = {}) {
  return trained(ranks, [&](auto& comm, auto& parameters) {
    using optimizer = decltype(kolo::distributed_optimizer{comm, kolo::replicated<Rule>{rule}, parameters, algorithm});
    return std::make_unique<optimizer>(comm, kolo::replicated<Rule>{rule}, parameters, algorithm);
  });
}
template <class Rule, class Algorithm = kolo::automatic>
weights by_shards(int ranks, const Rule& rule, Algorithm algorithm = {}, int shown = 0) {
  return trained(
      ranks,
      [&](auto& comm, auto& parameters) {
        using optimizer = decltype(kolo::sharded_optimizer{comm, rule, parameters, algorithm});
        return std::make_unique<optimizer>(comm, rule, parameters, algorithm,
                                           kolo::optimizer_options{.bucket_bytes = 300});
      },
      shown);
}

double farthest(const weights& a, const weights& b) {
  double most = 0;
  for (std::size_t t = 0; t < a.size(); ++t)
    for (std::size_t i = 0; i < a[t].size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(a[t][i]) - static_cast<double>(b[t][i])));
  return most;
}

/// `tolerance`: of a weight after all steps. Weights are about 0.5, and gradients differ in their last bits.
template <class Rule>
void check_rule(const Rule& rule, double tolerance) {
  const weights alone = by_replicas(1, rule), start = network{}.values;
  CHECK(farthest(alone, start) > 100 * tolerance);
  CHECK(by_shards(1, rule) == alone);
  for (const int p : {2, 3, 4}) {
    const weights replicas = by_replicas(p, rule), shards = by_shards(p, rule);
    INFO("ranks " << p << ": " << farthest(replicas, alone) << " and " << farthest(shards, alone) << " from one rank");
    CHECK(farthest(replicas, alone) < tolerance);
    CHECK(farthest(shards, alone) < tolerance);
    CHECK(by_replicas(p, rule) == replicas);
    CHECK(by_shards(p, rule, kolo::automatic{}, p - 1) == shards);
  }
}

}  // namespace

TEST_CASE("sgd: p batches of b train like one batch of p b, and two runs have the same bits") {
  check_rule(kolo::update::sgd{.rate = 0.2}, 1e-6);
}
TEST_CASE("momentum: p batches of b train like one batch of p b, and two runs have the same bits") {
  check_rule(kolo::update::momentum{.rate = 0.05, .weight_decay = 1e-4}, 2e-6);
}
TEST_CASE("adamw: p batches of b train like one batch of p b, and two runs have the same bits") {
  check_rule(kolo::update::adamw{.rate = 3e-3}, 1e-5);
}

TEST_CASE("sharded and replicated optimizers have the same bits if the allreduce is the two halves, in equal buckets") {
  const kolo::update::adamw rule{.rate = 1e-2};
  const auto same = [&](auto algorithm) {
    for (const int p : {2, 3, 4}) {
      const auto replicas = trained(p, [&](auto& comm, auto& parameters) {
        using optimizer = decltype(kolo::distributed_optimizer{comm, kolo::replicated{rule}, parameters, algorithm});
        return std::make_unique<optimizer>(comm, kolo::replicated{rule}, parameters, algorithm,
                                           kolo::optimizer_options{.bucket_bytes = 300});
      });
      CHECK(by_shards(p, rule, algorithm) == replicas);
    }
  };
  same(kolo::ring{});
  same(kolo::circulant{});
  same(kolo::two_shot{});
}

TEST_CASE("a rank keeps its part of the state; slices cover each element once, also with more ranks than elements") {
  const std::vector<std::size_t> sizes{1000, 0, 3, 250, 1};
  for (const int p : {1, 2, 3, 4, 7}) {
    tally t;
    std::atomic<std::size_t> covered = 0, bytes = 0;
    kolo::threads::run(p, [&](auto& comm) {
      model mine{sizes}, reference{sizes};
      kolo::sharded_optimizer optimizer{
          comm, kolo::update::momentum{.rate = 0.5, .factor = 0.5}, mine.parameters(), {.bucket_bytes = 800}};
      kolo::replicated alone{kolo::update::momentum{.rate = 0.5, .factor = 0.5}};
      for (const auto& s : optimizer.slices()) covered += s.count;
      bytes += optimizer.state_bytes();
      t.expect(optimizer.state_bytes() <= (1254 / static_cast<std::size_t>(p) + 4) * sizeof(float));
      for (int step = 0; step < 3; ++step) {
        mine.set_gradients(comm.rank(), step);
        const auto before = mine.values;
        if (step == 1) {
          for (std::size_t i : {0u, 2u, 1u, 4u, 3u}) optimizer.ready(i);
          optimizer.synchronize();
          t.expect(mine.values == before);
        }
        reference.set_sums(0, p, step, static_cast<float>(p));
        step_alone(alone, reference);
        if (step == 2)
          for (std::size_t i = 0; i < 5; ++i) optimizer.ready(i);
        optimizer.step();
        t.expect(mine.values == reference.values);
      }
    });
    INFO("ranks " << p);
    CHECK(t.wrong == 0);
    CHECK(covered == 1254);
    CHECK(bytes == 1254 * sizeof(float));
  }
}

TEST_CASE("sharded_optimizer: passes, a helper, clipping over all slices, and a local parameter") {
  struct own_or_not {
    std::span<float> value, gradient;
    bool local;
  };
  for (const int p : {1, 2, 3}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) {
      model mine{{1, 1, 2}};
      for (auto& v : mine.values) std::fill(v.begin(), v.end(), 0.0f);
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      std::vector<own_or_not> parameters;
      for (const auto& [value, gradient] : mine.parameters())
        parameters.push_back({value, gradient, parameters.size() == 2});
      kolo::sharded_optimizer optimizer{
          comm, kolo::update::sgd{.rate = 1}, parameters, kolo::sum, {.passes = 2, .helper = &exchange}};
      for (int pass = 0; pass < 2; ++pass) {
        mine.gradients[0][0] += comm.rank() == 0 ? 3.0f : 0.0f;
        mine.gradients[1][0] += comm.rank() == p - 1 ? 4.0f : 0.0f;
        mine.gradients[2][1] += static_cast<float>(comm.rank());
        for (std::size_t i = 0; i < 3; ++i) optimizer.ready(i);
        if (pass == 0) t.expect(!optimizer.step());
      }
      optimizer.synchronize();
      t.expect(optimizer.clip_by_global_norm(5) == 10);
      t.expect(optimizer.step());
      t.expect(mine.values == std::vector<std::vector<float>>{{-3}, {-4}, {0, -2 * static_cast<float>(comm.rank())}});
    });
    INFO("ranks " << p);
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("sharded_optimizer: a step begins while the helper reduces, and shares nothing with it that is not locked") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    model mine{{40}}, reference{{40}};
    kolo::background exchange;
    std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
    std::atomic<bool> begun = false;
    kolo::sharded_optimizer optimizer{
        comm,         kolo::update::sgd{.rate = 0.5}, mine.parameters(), telling_sum{&begun},
        kolo::ring{}, {.helper = &exchange}};
    mine.set_gradients(comm.rank(), 0);
    optimizer.ready(0);
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    while (!begun && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();  // what the helper does after it is not ordered with the step
    t.expect(begun);
    optimizer.step();
    reference.set_sums(0, 2, 0, 1);
    descent alone;
    step_alone(alone, reference);
    t.expect(mine.values == reference.values);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("sharded_optimizer: after a refused step, synchronize moves no parameter, and each gradient is scaled once") {
  kolo::threads::run(1, [](auto& comm) {
    model mine{{3, 4}};
    kolo::sharded_optimizer optimizer{
        comm, kolo::update::sgd{.rate = 1}, mine.parameters(), kolo::average, {.passes = 2}};
    const auto before = mine.values;
    for (auto& g : mine.gradients) std::fill(g.begin(), g.end(), 1.0f);
    optimizer.ready(0), optimizer.ready(1);
    CHECK(!optimizer.step());
    optimizer.ready(0), mine.gradients[0].assign(3, 0);
    CHECK(contains(words_of([&] { optimizer.ready(1); }), "was zeroed"));
    CHECK(contains(words_of([&] { optimizer.step(); }), "was zeroed"));
    mine.gradients[0].assign(3, 1);
    optimizer.synchronize();
    CHECK(mine.values == before);
    CHECK(optimizer.step());
    for (std::size_t t = 0; t < 2; ++t)
      for (std::size_t i = 0; i < mine.values[t].size(); ++i) CHECK(mine.values[t][i] == before[t][i] - 0.5f);
  });
}

TEST_CASE("update rules follow their formulas, with weight decay, for floats and doubles") {
  const auto check = [](const auto& rule, auto formula) {
    CHECK(follows<float>(rule, 1e-5, formula));
    CHECK(follows<double>(rule, 1e-12, formula));
  };
  check(kolo::update::sgd{.rate = 0.5, .weight_decay = 0.1},
        [](double& x, double g, auto&, double) { x -= 0.5 * (g + 0.1 * x); });
  check(kolo::update::momentum{.rate = 0.5, .factor = 0.9, .weight_decay = 0.1},
        [](double& x, double g, auto& s, double) {
          s[0] = 0.9 * s[0] + g + 0.1 * x;
          x -= 0.5 * s[0];
        });
  check(kolo::update::nesterov{.rate = 0.5, .momentum = 0.9, .weight_decay = 0.1},
        [](double& x, double g, auto& s, double) {
          g += 0.1 * x;
          s[0] = 0.9 * s[0] + g;
          x -= 0.5 * (g + 0.9 * s[0]);
        });
  check(kolo::update::adamw{.rate = 0.1, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.01, .weight_decay = 0.1},
        [](double& x, double g, auto& s, double step) {
          s[0] = 0.8 * s[0] + 0.2 * g;
          s[1] = 0.9 * s[1] + 0.1 * g * g;
          const double mean = s[0] / (1 - std::pow(0.8, step)), square = s[1] / (1 - std::pow(0.9, step));
          x -= 0.1 * (mean / (std::sqrt(square) + 0.01) + 0.1 * x);
        });
}

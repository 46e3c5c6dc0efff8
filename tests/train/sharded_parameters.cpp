// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sharded_parameters: whole during a use, gathered ahead; p ranks train like one; a checkpoint loads on any number of ranks.
#include <kolo/collective/barrier.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/observe/counted.hpp>
#include <kolo/train/sharded_checkpoint.hpp>
#include <kolo/train/sharded_parameters.hpp>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/message_threads.hpp"
#include "support/scratch.hpp"
#include "train/model.hpp"

#include <algorithm>
#include <cmath>
#include <latch>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace testing;

namespace {

using kolo::sharded_tensor;

constexpr std::size_t elements[] = {8, 7, 1, 20};  // of the four layers

struct layered {
  std::vector<std::vector<sharded_tensor<float>>> layers{};
  layered() {
    for (const auto& sizes : {std::vector<std::size_t>{5, 3}, {7}, {1}, {4, 0, 16}}) {
      layers.emplace_back();
      for (const std::size_t n : sizes) layers.back().emplace_back(n);
    }
  }
  std::vector<std::vector<sharded_tensor<float>*>> groups() {
    std::vector<std::vector<sharded_tensor<float>*>> all;
    for (auto& layer : layers) {
      all.emplace_back();
      for (auto& t : layer) all.back().push_back(&t);
    }
    return all;
  }
};

float first_value(std::size_t layer, std::size_t tensor, std::size_t i) {
  return static_cast<float>(100 * layer + 10 * tensor + i);
}
/// The mean of the ranks' gradients. That of rank 0 is larger than the others by p, so that a gradient left out or counted twice is noticed.
float mean_gradient(std::size_t layer, std::size_t tensor, std::size_t i, long step) {
  return static_cast<float>(layer + 2 * tensor + i % 3) + static_cast<float>(step);
}

constexpr kolo::update::momentum rule{.rate = 0.5, .factor = 0.5};

/// The value on one rank after `steps` steps.
float expected(std::size_t layer, std::size_t tensor, std::size_t i, long steps) {
  float value = first_value(layer, tensor, i), velocity = 0;
  for (long k = 1; k <= steps; ++k) {
    velocity = 0.5f * velocity + (mean_gradient(layer, tensor, i, k) + 0.0f * value);
    value -= 0.5f * velocity;
  }
  return value;
}

bool is_as_expected(const layered& m, std::size_t layer, long steps) {
  for (std::size_t t = 0; t < m.layers[layer].size(); ++t) {
    const auto& tensor = m.layers[layer][t];
    if (tensor.value().size() != tensor.size()) return false;
    for (std::size_t i = 0; i < tensor.size(); ++i)
      if (tensor.value()[i] != expected(layer, t, i, steps)) return false;
  }
  return true;
}

template <class Shards>
void initialise(Shards& shards, layered& m) {
  shards.initialise([&](std::size_t layer) {
    for (std::size_t t = 0; t < m.layers[layer].size(); ++t)
      for (std::size_t i = 0; i < m.layers[layer][t].size(); ++i)
        m.layers[layer][t].value()[i] = first_value(layer, t, i);
  });
}

/// A step: forward, backward, update. Returns whether values and gradients are right and present when they should be.
template <class Shards>
bool learns(Shards& shards, layered& m, int ranks, int rank, long step) {
  bool good = true;
  for (std::size_t layer = 0; layer < 4; ++layer) {
    const auto used = shards.use(layer);
    good &= is_as_expected(m, layer, step - 1) && m.layers[layer][0].gradient().empty();
  }
  for (std::size_t layer = 4; layer-- > 0;) {
    {
      const auto used = shards.use_with_gradients(layer);
      good &= is_as_expected(m, layer, step - 1);
      for (std::size_t t = 0; t < m.layers[layer].size(); ++t)
        for (std::size_t i = 0; i < m.layers[layer][t].size(); ++i) {
          float& g = m.layers[layer][t].gradient()[i];
          good &= g == 0;
          g += mean_gradient(layer, t, i, step) - 1 + (rank == 0 ? static_cast<float>(ranks) : 0.0f);
        }
    }
    good &= m.layers[layer][0].value().empty() && m.layers[layer][0].gradient().empty();
  }
  shards.step();
  return good;
}

/// The upper bound for the model's bytes on a rank if `ahead` groups are gathered ahead.
template <class Comm>
std::size_t room(const Comm& comm, int ahead) {
  const auto p = static_cast<std::size_t>(comm.size());
  std::size_t own = 0;
  for (const std::size_t n : elements) own += (n + p - 1) / p * 3;  // values, gradients, one state
  return (own + (3 + static_cast<std::size_t>(ahead)) * ((20 + p - 1) / p * p)) * sizeof(float);
}

template <class Comm>
bool trains(Comm& comm, const kolo::sharded_parameters_options& options = {}, long steps = 3) {
  layered m;
  kolo::sharded_parameters shards{comm, rule, m.groups(), options};
  initialise(shards, m);
  bool good = true;
  for (long k = 1; k <= steps; ++k) good &= learns(shards, m, comm.size(), comm.rank(), k);
  for (std::size_t layer = 4; layer-- > 0;) {
    const auto used = shards.use(layer);
    good &= is_as_expected(m, layer, steps);
  }
  return good && shards.bytes() <= room(comm, std::min(options.ahead, 3));
}

/// Runs f(shards, m, t) on 1, 2 and 3 ranks with the values of `initialise`.
template <class F>
void on_few_ranks(F f) {
  for (const int p : {1, 2, 3}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) {
      layered m;
      kolo::sharded_parameters shards{comm, rule, m.groups()};
      initialise(shards, m);
      f(shards, m, t);
    });
    INFO(p << " ranks");
    CHECK(t.wrong == 0);
  }
}

}  // namespace

TEST_CASE("sharded_parameters: p ranks learn bit for bit what one does, and keep 1/p of the model and few buffers") {
  for (const int p : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) { t.expect(trains(comm)); });
    INFO(p << " ranks");
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("sharded_parameters: 0, 2 or all groups ahead, with a helper, over messages, between processes") {
  tally t;
  for (const int ahead : {0, 2, 9})
    kolo::threads::run(3, [&](auto& comm) { t.expect(trains(comm, {.ahead = ahead})); });
  kolo::threads::run(3, [&](auto& comm) {
    kolo::background exchange;
    std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
    t.expect(trains(comm, {.ahead = 1, .helper = &exchange}));
  });
  run_message_threads(3, [&](auto& comm) { t.expect(trains(comm)); });
  CHECK(t.wrong == 0);
  CHECK(on_processes(3, [](auto& comm) { return std::string{trains(comm) ? "the same" : "other bits"}; }).said ==
        all_say(3, "the same"));
}

TEST_CASE("sharded_parameters: a group may be used in another order, twice, or not at all") {
  tally t;
  kolo::threads::run(3, [&](auto& comm) {
    layered m;
    kolo::sharded_parameters shards{comm, rule, m.groups()};
    initialise(shards, m);
    for (const std::size_t layer : {0UL, 1UL, 2UL, 3UL}) const auto used = shards.use(layer);
    shards.step();
    for (const std::size_t layer : {3UL, 1UL, 1UL, 0UL}) {
      const auto used = shards.use(layer);
      const auto again = shards.use(layer);
      t.expect(is_as_expected(m, layer, 0));
    }
    shards.step();
    for (const std::size_t layer : {2UL, 3UL}) {
      const auto used = shards.use(layer);
      t.expect(is_as_expected(m, layer, 0));
    }
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("sharded_parameters: initialise again, also after steps and uses that gathered ahead") {
  for (const int p : {1, 2, 3}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) {
      layered m;
      kolo::sharded_parameters shards{comm, rule, m.groups(), {.ahead = 2}};
      for (int trial = 0; trial < 3; ++trial) {
        shards.initialise([&](std::size_t layer) {
          for (auto& tensor : m.layers[layer])
            std::fill(tensor.value().begin(), tensor.value().end(), static_cast<float>(trial));
        });
        for (std::size_t layer = 0; layer < 4; ++layer) {
          const auto used = shards.use(layer);
          for (const auto& tensor : m.layers[layer])
            for (const float x : tensor.value()) t.expect(x == static_cast<float>(trial));
          if (layer == 1 && trial == 1) break;
        }
        if (trial == 0) shards.step();
      }
    });
    INFO(p << " ranks");
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("sharded_parameters: an exception in initialise leaves the previous values of the group") {
  on_few_ranks([](auto& shards, layered& m, tally& t) {
    for (int trial = 0; trial < 3; ++trial) {
      try {
        shards.initialise([&](std::size_t layer) {
          const auto value = m.layers[layer][0].value();
          std::fill(value.begin(), value.end(), 77.0f);
          if (layer == 1) throw std::runtime_error("half a file");
        });
        t.expect(false);
      } catch (const std::runtime_error&) {
      }
      t.expect(m.layers[1][0].value().empty());
      {
        const auto used = shards.use(0);
        t.expect(m.layers[0][0].value()[4] == 77);
      }
      for (const std::size_t layer : {1UL, 2UL, 3UL}) {
        const auto used = shards.use(layer);
        t.expect(is_as_expected(m, layer, 0));
      }
    }
    t.expect(shards.bytes() <= room(shards.comm(), 1));
  });
}

TEST_CASE("sharded_parameters: all ranks may abandon a step in a use, and continue") {
  on_few_ranks([](auto& shards, layered& m, tally& t) {
    for (int trial = 0; trial < 3; ++trial)
      for (const bool backward : {false, true}) try {
          const auto used = backward ? shards.use_with_gradients(3) : shards.use(3);
          if (backward) m.layers[3][0].gradient()[0] = 1000;
          throw std::runtime_error("a batch that every rank finds broken");
        } catch (const std::runtime_error&) {
        }
    shards.step();
    t.expect(shards.bytes() <= room(shards.comm(), 1));
    for (long k = 1; k <= 2; ++k) t.expect(learns(shards, m, shards.comm().size(), shards.comm().rank(), k));
  });
}

TEST_CASE("sharded_parameters: an abandoned use takes nothing from an outer use of the same group") {
  on_few_ranks([](auto& shards, layered& m, tally& t) {
    const auto give_up = [&](auto use) {
      try {
        const auto again = use();
        throw std::runtime_error("a batch that every rank finds broken");
      } catch (const std::runtime_error&) {
      }
    };
    const auto& tensor = m.layers[3][0];
    const auto has = [&](std::size_t values, std::size_t gradients) {
      t.expect(tensor.value().size() == values && tensor.gradient().size() == gradients);
    };
    {
      const auto outer = shards.use(3);
      give_up([&] { return shards.use_with_gradients(3); });
      has(4, 0), t.expect(is_as_expected(m, 3, 0));
    }
    {
      const auto outer = shards.use_with_gradients(3);
      give_up([&] { return shards.use(3); });
      has(4, 4), t.expect(is_as_expected(m, 3, 0));
    }
    has(0, 0);
    shards.step();
    t.expect(learns(shards, m, shards.comm().size(), shards.comm().rank(), 1));
  });
}

struct descent_that_may_throw {
  static constexpr std::size_t states = 0;
  const bool* throws;
  void operator()(std::span<float> value, std::span<const float>, const std::array<std::span<float>, 0>&, long) const {
    if (*throws) throw std::runtime_error{"a rule that throws"};
    for (float& x : value) --x;
  }
};
TEST_CASE("sharded_parameters: if one rank's rule throws, the step ends on all, and that rank's part does not change") {
  for (const int p : {1, 2, 3}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) {
      sharded_tensor<float> tensors[] = {sharded_tensor<float>{7}, sharded_tensor<float>{5}};
      bool throws = false;
      kolo::sharded_parameters shards{comm, descent_that_may_throw{&throws},
                                      std::vector<std::vector<sharded_tensor<float>*>>{{&tensors[0]}, {&tensors[1]}}};
      for (int step = 0; step < 3; ++step) {
        for (const std::size_t g : {1UL, 0UL}) const auto used = shards.use_with_gradients(g);
        throws = step == 1 && comm.rank() == 0;
        try {
          shards.step();
          t.expect(!throws);
        } catch (const std::runtime_error&) {
          t.expect(throws);
        }
      }
      const auto ranks = static_cast<std::size_t>(p);
      for (const std::size_t g : {0UL, 1UL}) {
        const auto used = shards.use(g);
        const auto value = tensors[g].value();
        for (std::size_t i = 0; i < value.size(); ++i)
          t.expect(value[i] == (i < (value.size() + ranks - 1) / ranks ? -2.0f : -3.0f));
      }
    });
    INFO("ranks " << p);
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("sharded_parameters: clipped and skipped steps have the bits of a rank with all parameters") {
  constexpr kolo::update::adamw adaptive{.rate = 0.1};
  for (const int p : {1, 2, 3, 5})
    for (const bool is_helped : {false, true}) {
      tally t;
      kolo::threads::run(p, [&](auto& comm) {
        kolo::background exchange;
        std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
        layered m;
        kolo::sharded_parameters shards{comm, adaptive, m.groups(), {.helper = is_helped ? &exchange : nullptr}};
        initialise(shards, m);
        model whole{{5, 3, 7, 1, 4, 0, 16}};
        kolo::replicated alone{adaptive};
        const auto each_tensor = [&](auto f) {
          std::size_t k = 0;
          for (std::size_t layer = 0; layer < 4; ++layer)
            for (std::size_t tensor = 0; tensor < m.layers[layer].size(); ++tensor) f(layer, tensor, k++);
        };
        each_tensor([&](std::size_t layer, std::size_t tensor, std::size_t k) {
          for (std::size_t i = 0; i < whole.values[k].size(); ++i) whole.values[k][i] = first_value(layer, tensor, i);
        });
        for (const long step : {1, 2, 3, 4}) {
          const auto is_used = [&](std::size_t layer) { return step != 2 || layer != 1; };
          for (std::size_t layer = 4; layer-- > 0;) {
            if (!is_used(layer)) continue;
            const auto used = shards.use_with_gradients(layer);
            for (std::size_t tensor = 0; tensor < m.layers[layer].size(); ++tensor) {
              const auto g = m.layers[layer][tensor].gradient();
              for (std::size_t i = 0; i < g.size(); ++i)
                g[i] = mean_gradient(layer, tensor, i, step) - 1 + static_cast<float>(comm.rank() == 0 ? p : 0);
              if (step == 3 && layer == 2 && comm.rank() == p - 1) g[0] = INFINITY;
            }
          }
          const double norm = shards.clip_by_global_norm(step == 4 ? 1e3 : 1.5);
          t.expect(std::isfinite(norm) == (step != 3));
          if (step == 3) {
            shards.skip_step();
            continue;
          }
          shards.step();
          each_tensor([&](std::size_t layer, std::size_t tensor, std::size_t k) {
            for (std::size_t i = 0; i < whole.gradients[k].size(); ++i)
              whole.gradients[k][i] = is_used(layer) ? mean_gradient(layer, tensor, i, step) : 0;
          });
          t.expect(norm == kolo::clip_by_global_norm(whole.parameters(), step == 4 ? 1e3 : 1.5) && norm > 1.5);
          each_tensor([&](std::size_t layer, std::size_t, std::size_t k) {
            if (is_used(layer)) alone.step(k, whole.values[k], whole.gradients[k]);
          });
        }
        t.expect(shards.steps() == 3);
        each_tensor([&](std::size_t layer, std::size_t tensor, std::size_t k) {
          const auto used = shards.use(layer);
          const auto value = m.layers[layer][tensor].value();
          t.expect(std::equal(value.begin(), value.end(), whole.values[k].begin(), whole.values[k].end()));
        });
      });
      INFO(p << " ranks, helped " << is_helped);
      CHECK(t.wrong == 0);
    }
}

TEST_CASE("sharded_parameters: evaluation loops gather the next used group ahead, within the memory bound") {
  using transport = kolo::counted<message_transport>;
  constexpr int p = 3;
  tally t;
  run_threads_over<transport>(p, [&](auto& comm) {
    layered m;
    kolo::sharded_parameters shards{comm, rule, m.groups()};
    initialise(shards, m);
    const auto sent = [&] { return comm.transport().total().bytes_sent; };
    std::uint64_t of_group[4];  // the bytes that a rank sends to gather each layer
    std::transform(std::begin(elements), std::end(elements), of_group,
                   [](std::size_t n) { return (n + p - 1) / p * (p - 1) * sizeof(float); });
    const auto of_step = [&](long k) {
      shards.share_values();
      const std::uint64_t before = sent();
      t.expect(learns(shards, m, p, comm.rank(), k));
      shards.share_values();
      return sent() - before;
    };
    const auto judges = [&] {
      for (std::size_t layer = 0; layer < 4; ++layer) {
        const auto used = shards.use(layer);
        t.expect(is_as_expected(m, layer, 3));
      }
      t.expect(m.layers[3][0].value().empty());
    };
    of_step(1), of_step(2);
    const std::uint64_t usual = of_step(3);
    judges(), judges();
    shards.share_values();
    std::uint64_t before = sent();
    for (int pass = 0; pass < 20; ++pass) judges();
    shards.share_values();  // the first layer was gathered ahead
    t.expect(sent() - before == 20 * std::accumulate(of_group, of_group + 4, std::uint64_t{}) + of_group[0]);
    for (std::size_t use = 0; use < 8; ++use) {
      before = sent();
      { const auto used = shards.use(use % 4); }
      shards.share_values();
      t.expect(sent() - before == of_group[use % 4] + of_group[(use + 1) % 4]);
    }
    of_step(4);
    t.expect(of_step(5) == usual);
    t.expect(shards.bytes() <= room(comm, 1));
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("sharded_parameters: a checkpoint resumes bit for bit on another number of ranks") {
  const scratch_directory directory;
  const std::string path = directory / "model";
  tally t;
  kolo::threads::run(3, [&](auto& comm) {
    layered m;
    kolo::sharded_parameters shards{comm, rule, m.groups()};
    initialise(shards, m);
    for (long k = 1; k <= 2; ++k) t.expect(learns(shards, m, 3, comm.rank(), k));
    kolo::save_sharded_checkpoint(path, shards);
  });
  for (const int p : {1, 2, 5})
    kolo::threads::run(p, [&](auto& comm) {
      layered m;
      kolo::sharded_parameters shards{comm, rule, m.groups()};
      kolo::load_sharded_checkpoint(path, shards);
      for (const std::size_t layer : {3UL, 1UL}) {
        const auto used = shards.use_with_gradients(layer);
        m.layers[layer][0].gradient()[0] = 1000;
      }
      kolo::load_sharded_checkpoint(path, shards);  // which abandons that step
      t.expect(shards.steps() == 2);
      t.expect(learns(shards, m, p, comm.rank(), 3));
      for (const std::size_t layer : {0UL, 1UL, 2UL, 3UL}) {
        const auto used = shards.use(layer);
        t.expect(is_as_expected(m, layer, 3));
      }
    });
  CHECK(t.wrong == 0);
}

TEST_CASE("sharded_parameters: frozen parameters count their own steps, also after a checkpoint, in other groups") {
  const scratch_directory directory;
  const std::string path = directory / "model";
  tally t;
  const auto train = [&](auto& comm, bool goes_on) {
    sharded_tensor<float> early{7}, late{5};
    kolo::sharded_parameters shards{comm, counting{},
                                    std::vector<std::vector<sharded_tensor<float>*>>{{&early}, {&late}}};
    if (goes_on) kolo::load_sharded_checkpoint(path, shards);
    const long end = shards.steps() + 4;
    while (shards.steps() < end) {
      if (shards.steps() > 1) const auto used = shards.use_with_gradients(1);
      { const auto used = shards.use_with_gradients(0); }
      shards.step();
    }
    if (!goes_on) kolo::save_sharded_checkpoint(path, shards);
    const auto both = shards.use(0), and_late = shards.use(1);
    for (const float x : early.value()) t.expect(x == static_cast<float>(end));
    for (const float x : late.value()) t.expect(x == static_cast<float>(end - 2));
  };
  kolo::threads::run(2, [&](auto& comm) { train(comm, false); });
  for (const int p : {1, 3}) kolo::threads::run(p, [&](auto& comm) { train(comm, true); });
  for (const int p : {1, 2, 3})
    kolo::threads::run(p, [&](auto& comm) {
      sharded_tensor<float> early{7}, late{5};
      kolo::sharded_parameters shards{comm, counting{},
                                      std::vector<std::vector<sharded_tensor<float>*>>{{&early, &late}}};
      kolo::load_sharded_checkpoint(path, shards);
      { const auto used = shards.use_with_gradients(0); }
      shards.step();
      const auto both = shards.use(0);
      for (const float x : early.value()) t.expect(x == 5);
      for (const float x : late.value()) t.expect(x == 3);
      model whole{{7, 5}};
      kolo::sharded_optimizer optimizer{comm, counting{}, whole.parameters()};
      const auto why = words_of([&] { kolo::load_sharded_checkpoint(path, optimizer); });
      t.expect(contains(why, "was updated in 2 of 4 steps") || contains(why, "could not read its part"));
    });
  CHECK(t.wrong == 0);
}

TEST_CASE("sharded_parameters: ranks that differ in groups, sizes or options get an error at once") {
  const auto differ = [](std::vector<std::size_t> sizes, int ahead) {
    tally t;
    kolo::threads::run(3, [&](auto& comm) {
      const bool other = comm.rank() == 1;
      sharded_tensor<float> a{other ? sizes[0] : 4}, b{other ? sizes[1] : 5};
      const std::vector<std::vector<sharded_tensor<float>*>> groups{{&a, &b}};
      const auto why = words_of([&] { kolo::sharded_parameters{comm, rule, groups, {.ahead = other ? ahead : 1}}; });
      t.expect(contains(why, "ranks differ in the groups"));
    });
    return t.wrong == 0;
  };
  CHECK(differ({5, 4}, 1));
  CHECK(differ({4, 4}, 1));
  CHECK(differ({4, 5}, 2));
  CHECK_FALSE(differ({4, 5}, 1));
}

TEST_CASE("sharded_parameters: invalid calls are refused") {
  kolo::threads::run(1, [&](auto& comm) {
    layered m;
    kolo::sharded_parameters shards{comm, rule, m.groups()};
    initialise(shards, m);
    CHECK(words_of([&] { (void)shards.use(4); }).find("there is no such group") != std::string::npos);
    { const auto used = shards.use_with_gradients(1); }
    CHECK(words_of([&] { (void)shards.use_with_gradients(1); }).find("a second backward pass") != std::string::npos);
    {
      const auto used = shards.use(0);
      const auto refuses = [&](auto f) { return contains(words_of(f), "after all uses have ended"); };
      CHECK(refuses([&] { initialise(shards, m); }));
      CHECK(refuses([&] { shards.clip_by_global_norm(1); }));
      CHECK(refuses([&] { shards.skip_step(); }));
      CHECK(refuses([&] { shards.step(); }));
      CHECK(refuses([&] { shards.share_values(); }));
      CHECK(refuses([&] { kolo::load_sharded_checkpoint("/nowhere", shards); }));
    }
    shards.step();
    sharded_tensor<float> nothing{0};
    const std::vector<std::vector<sharded_tensor<float>*>> empty{{&nothing}};
    CHECK(words_of([&] { kolo::sharded_parameters{comm, rule, empty}; }).find("no elements") != std::string::npos);
    sharded_tensor<float> tied{4};
    const std::vector<std::vector<sharded_tensor<float>*>> twice{{&tied}, {&tied}};
    CHECK(words_of([&] { kolo::sharded_parameters{comm, rule, twice}; }).find("named twice") != std::string::npos);
  });
}

TEST_CASE("sharded_parameters: a helper that has another's exchange is refused, and the use does not begin") {
  tally t;
  for (const int p : {1, 2})
    kolo::threads::run(p, [&](auto& comm) {
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      layered one, two;
      kolo::sharded_parameters first{comm, rule, one.groups(), {.helper = &exchange}},
          second{comm, rule, two.groups(), {.helper = &exchange}};
      initialise(first, one), initialise(second, two);
      {
        const auto used = first.use(0);
        t.expect(contains(words_of([&] { (void)second.use(0); }), "has the exchange of another optimizer"));
        t.expect(is_as_expected(one, 0, 0));
      }
      t.expect(learns(first, one, p, comm.rank(), 1) && learns(second, two, p, comm.rank(), 1));
    });
  CHECK(t.wrong == 0);
}

/// While a call sends, another thread's optimizer takes the helper. A wait counts a latch down.
struct watched : message_transport {
  using message_transport::message_transport;
  inline static thread_local kolo::background* exchange = nullptr;
  inline static thread_local std::latch* waits = nullptr;
  void submit() {
    if (auto* const its = std::exchange(exchange, nullptr)) its->lend([](void*) {}, nullptr);
    message_transport::submit();
  }
  void relax(kolo::backoff& p, const kolo::wait_context& s) {
    if (auto* const its = std::exchange(waits, nullptr)) its->count_down();
    message_transport::relax(p, s);
  }
};
/// Runs f(comm, tally) on two ranks; returns whether all was right.
template <class F>
bool on_watched_ranks(F f) {
  tally t;
  run_threads_over<watched>(2, [&](auto& comm) { t.expect(words_of([&] { f(comm, t); }).empty()); });
  return t.wrong == 0;
}

TEST_CASE("sharded_parameters: without a helper that another thread's optimizer takes meanwhile, a use is right") {
  CHECK(on_watched_ranks([](auto& comm, tally& t) {
    kolo::background exchange;
    std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
    layered m;
    kolo::sharded_parameters shards{comm, rule, m.groups(), {.ahead = 0, .helper = &exchange}};
    initialise(shards, m);
    watched::exchange = &exchange;
    {
      const auto used = shards.use(0);
      t.expect(!watched::exchange && is_as_expected(m, 0, 0) && !exchange.try_lend([](void*) {}, nullptr));
    }
    exchange.take_back(std::chrono::minutes{1});
    t.expect(learns(shards, m, 2, comm.rank(), 1));
  }));
}

TEST_CASE("sharded_parameters: clip_by_global_norm reads the last group's gradients when all ranks have sent them") {
  std::latch clips{1};
  CHECK(on_watched_ranks([&](auto& comm, tally& t) {
    sharded_tensor<double> weights{2};
    kolo::sharded_parameters shards{comm, kolo::update::sgd{},
                                    std::vector<std::vector<sharded_tensor<double>*>>{{&weights}}};
    {
      const auto used = shards.use_with_gradients(0);
      weights.gradient()[0] = 1e200;       // rank 0's. If it is not known to be the largest, its square is infinite
      if (comm.rank() == 1) clips.wait();  // until then rank 0 does not have its mean
    }
    if (comm.rank() == 0) watched::waits = &clips;
    t.expect(shards.clip_by_global_norm(1e250) == 1e200);
  }));
}

TEST_CASE("sharded_parameters: a group whose gathering could not start is not shown by a later use") {
  kolo::threads::run(1, [&](auto& comm) {
    layered m;
    kolo::sharded_parameters shards{comm, rule, m.groups(), {.ahead = 0}};
    initialise(shards, m);
    comm.transport().fail(kolo::failure_from({}, kolo::errc::timeout, 0, {}, "too late"));
    for (int use = 0; use < 2; ++use) CHECK(contains(words_of([&] { const auto used = shards.use(0); }), "too late"));
  });
}

TEST_CASE("sharded_parameters: a use that throws when its group is whole has ended") {
  kolo::threads::run(1, [&](auto& comm) {
    layered m;
    kolo::sharded_parameters shards{comm, rule, m.groups()};
    initialise(shards, m);
    { const auto used = shards.use_with_gradients(2); }  // gathers group 1 ahead
    comm.transport().fail(kolo::failure_from({}, kolo::errc::timeout, 0, {}, "too late"));
    CHECK(contains(words_of([&] { (void)shards.use_with_gradients(1); }), "too late"));  // cannot gather group 0 ahead
    CHECK((m.layers[1][0].value().empty() && m.layers[1][0].gradient().empty()));
    const auto again = words_of([&] { (void)shards.use_with_gradients(1); });
    CHECK((contains(again, "too late") && !contains(again, "second backward pass")));
    CHECK_FALSE(contains(words_of([&] { shards.step(); }), "uses have ended"));
  });
}

TEST_CASE("sharded_parameters: a call that one rank refuses is an error on the other at once") {
  const auto check = [](const char* expected, auto wrong) {
    std::string first, second;
    kolo::threads::run(2, [&](auto& comm) {
      layered m;
      kolo::sharded_parameters shards{comm, rule, m.groups()};
      initialise(shards, m);
      (comm.rank() == 0 ? first : second) = words_of([&] {
        if (comm.rank() == 0) wrong(shards);
        for (long step = 1; step <= 2; ++step) learns(shards, m, 2, comm.rank(), step);
      });
    });
    INFO(first << "\n" << second);
    CHECK(contains(first, expected));
    CHECK(contains(second, "rank 0: refused its arguments"));
  };
  check("there is no such group", [](auto& shards) { (void)shards.use(4); });
  check("step comes after all uses have ended", [](auto& shards) {
    const auto used = shards.use(0);
    shards.step();
  });
}

TEST_CASE("sharded_parameters: if one rank skips a step alone, all ranks get a mismatch at the next use") {
  std::string words[2];
  kolo::threads::run(2, [&](auto& comm) {
    layered m;
    kolo::sharded_parameters shards{comm, rule, m.groups(), {.ahead = 0}};
    initialise(shards, m);
    { const auto used = shards.use_with_gradients(0); }
    if (comm.rank() == 0) shards.step();
    else shards.skip_step();
    words[comm.rank()] = words_of([&] { (void)shards.use(1); });
  });
  for (const auto& text : words) CHECK(contains(text, "root or optimizer"));
}

TEST_CASE("sharded_parameters: a rank that fails in a use is named by the others") {
  for (const bool backward : {false, true}) {
    std::vector<std::string> said(3);
    try {
      kolo::threads::run(3, [&](auto& comm) {
        layered m;
        kolo::sharded_parameters shards{comm, rule, m.groups(), {.ahead = 1}};
        initialise(shards, m);
        try {
          for (long step = 1; step <= 2; ++step)
            for (std::size_t layer = 4; layer-- > 0;) {
              const auto used = backward ? shards.use_with_gradients(layer) : shards.use(layer);
              if (comm.rank() == 1 && layer == 2) throw std::runtime_error("this layer is broken");
              kolo::barrier(comm);  // the others fail in the use, too
              if (layer == 0) break;
            }
          shards.step();
        } catch (const kolo::error& e) {
          said[static_cast<std::size_t>(comm.rank())] = e.what();
          throw;
        }
      });
    } catch (const std::exception&) {
    }
    INFO(said[0] << "; " << said[2]);
    CHECK((said[0].find("rank 1") != std::string::npos && said[1].empty() &&
           said[2].find("rank 1") != std::string::npos));
  }
}

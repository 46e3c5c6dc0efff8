// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A batch divided into leaves: parameters, norms and metrics have the bits of one tree, on any number of ranks and over any transport.
#include <kolo/simulate/simulated.hpp>
#include <kolo/train/data.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/message_threads.hpp"
#include "train/leaves.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>

using namespace testing;

namespace {

template <class Comm>
bool both_learn(Comm& comm, int leaves) {
  constexpr std::size_t in_two_parts = 2100;  // two ranks combine as many in two parts
  return learns_by_leaves(comm, leaves, make_replicated, nullptr, in_two_parts) &&
         learns_by_leaves(comm, leaves, make_sharded) && averages_by_leaves(comm, leaves);
}

/// The norm of float gradients by a sharded optimizer on `ranks` ranks, and that of the whole gradients.
std::pair<double, double> norms_of(int ranks, std::vector<float> gradients) {
  std::pair<double, double> found;
  kolo::threads::run(ranks, [&](auto& comm) {
    std::vector<float> values(gradients.size()), mine = gradients;
    const std::vector parameters{parameter{values, mine}};
    kolo::sharded_optimizer optimizer{comm, kolo::update::sgd{}, parameters};
    optimizer.synchronize();
    const double norm = optimizer.clip_by_global_norm(HUGE_VAL);
    if (comm.rank() == 0) found = {norm, kolo::clip_by_global_norm(std::vector{parameter{values, mine}}, HUGE_VAL)};
  });
  return found;
}

}  // namespace

TEST_CASE("leaves: each rank keeps few subtrees, and those of all ranks make one tree") {
  for (std::size_t number = 1; number <= 128; number *= 2)
    for (int p = 1; p <= static_cast<int>(number); ++p) {
      std::vector<kolo::detail::train::subtree> known;
      for (int r = 0; r < p; ++r) {
        const kolo::detail::train::subtrees_of mine{kolo::leaves{static_cast<int>(number)}.of(r, p)};
        CHECK(mine.most <= std::max<std::size_t>(static_cast<std::size_t>(std::countr_zero(number)), 1));
        for (const auto& s : mine.all) {
          CHECK(s.first % s.count == 0);
          kolo::detail::train::join(known, s, [](std::size_t, std::size_t) {});
        }
      }
      CHECK(known.size() == 1);
      CHECK(known[0].count == number);
    }
}

TEST_CASE("leaves: replicated and sharded optimizers have the bits of one tree on any number of ranks") {
  for (const auto& of :
       {std::pair{1, 1}, {2, 1}, {2, 2}, {8, 1}, {8, 2}, {8, 3}, {8, 4}, {8, 5}, {8, 6}, {8, 7}, {8, 8}, {16, 11}}) {
    const auto leaves = of.first, ranks = of.second;  // clang 14: no lambda takes the names of a structured binding
    tally t;
    kolo::threads::run(ranks, [&](auto& comm) { t.expect(both_learn(comm, leaves)); });
    INFO(leaves << " leaves, " << ranks << " ranks");
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("leaves: the same over messages, between processes, on simulated ranks, and with a helper") {
  tally t;
  run_message_threads(3, [&](auto& comm) { t.expect(learns_by_leaves(comm, 8, make_sharded)); });
  kolo::virtual_time::run(3, kolo::simulate::network{},
                          [&](auto& comm) { t.expect(learns_by_leaves(comm, 8, make_replicated)); });
  kolo::threads::run(3, [&](auto& comm) {
    kolo::background exchange;
    std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
    t.expect(learns_by_leaves(comm, 8, make_replicated, &exchange));
  });
  CHECK(t.wrong == 0);
  const auto said = on_processes(3, [](auto& comm) {
                      return std::string{learns_by_leaves(comm, 8, make_sharded) ? "the same" : "other bits"};
                    }).said;
  CHECK(said == all_say(3, "the same"));
}

TEST_CASE("leaves: a leaf's number may be omitted, one step follows the last leaf, and another order is refused") {
  for (const int p : {1, 2, 3, 8}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) {
      model by_steps{{5, 300}}, by_leaves{{5, 300}};
      const kolo::optimizer_options options{.leaves = 8};
      kolo::distributed_optimizer steps{comm, descent{}, by_steps.parameters(), options};
      kolo::sharded_optimizer leaves{comm, kolo::update::sgd{.rate = 0.5}, by_leaves.parameters(), options};
      const std::vector<int> own = leaves.leaves();
      const kolo::extent wanted = kolo::leaves{8}.of(comm.rank(), p);
      t.expect(own.size() == wanted.count && own.front() == static_cast<int>(wanted.first) && own == steps.leaves());
      for (int step = 0; step < 3; ++step) {
        for (const int leaf : own) {
          for (std::size_t k = 0; k < 2; ++k)
            for (std::size_t i = 0; i < by_steps.gradients[k].size(); ++i)
              by_steps.gradients[k][i] = by_leaves.gradients[k][i] =
                  of_leaf(static_cast<std::size_t>(leaf), step, k, i);
          t.expect(steps.step() == (leaf == own.back()));
          step == 1 ? leaves.leaf() : leaves.leaf(leaf);
        }
        t.expect(leaves.step());
        t.expect(by_leaves.values == by_steps.values);
      }
    });
    INFO(p << " ranks");
    CHECK(t.wrong == 0);
  }
  const auto refused = [](auto wrong, int leaves = 4) {
    return words_of([&] {
      kolo::threads::run(1, [&](auto& comm) {
        model m{{3}};
        kolo::distributed_optimizer optimizer{comm, descent{}, m.parameters(), {.leaves = leaves}};
        wrong(optimizer);
      });
    });
  };
  CHECK(contains(refused([](auto& o) { o.leaf(1); }), "leaf 1 is not the next one"));
  CHECK(contains(refused([](auto& o) { o.leaf(0), o.step(); }), "step comes after the last"));
  CHECK(contains(refused([](auto& o) { o.step(), o.leaf(); }), "leaf comes after each leaf of a step, or step() does"));
  CHECK(contains(refused([](auto& o) { o.leaf(0), o.leaf(1), o.leaf(2), o.synchronize(); }),
                 "synchronize or step comes after the last"));
  CHECK(contains(refused([](auto& o) {
                   for (int i = 0; i < 5; ++i) o.leaf();
                 }),
                 "step comes before the next"));
  CHECK(contains(refused([](auto& o) { o.leaf(); }, 0), "a leaf needs options.leaves"));
  const auto zeroed = words_of([] {
    kolo::threads::run(1, [](auto& comm) {
      model m{{3}};
      kolo::distributed_optimizer optimizer{comm, descent{}, m.parameters(), {.leaves = 4}};
      m.gradients[0].assign(3, 1), optimizer.ready(0);
      m.gradients[0].assign(3, 0), optimizer.leaf();
    });
  });
  CHECK(contains(zeroed, "zeroed between the backward pass and the step"));
}

TEST_CASE("leaves: the items of a step are the same on any number of ranks") {
  std::vector<int> items(29);
  std::iota(items.begin(), items.end(), 0);
  for (int p = 1; p <= 8; ++p) {
    std::vector<std::vector<int>> of_step(3);
    for (int r = 0; r < p; ++r) {
      const kolo::sharded<const std::vector<int>&> mine{items, r, p, kolo::leaves{8}};
      const std::size_t count = kolo::leaves{8}.of(r, p).count;
      CHECK(mine.size() == 3 * count);
      std::size_t i = 0;
      for (const int item : mine) of_step[i++ / count].push_back(item);
    }
    for (std::size_t step = 0; step < 3; ++step)
      CHECK(of_step[step] == std::vector<int>(items.begin() + static_cast<std::ptrdiff_t>(8 * step),
                                              items.begin() + static_cast<std::ptrdiff_t>(8 * step + 8)));
  }
}

TEST_CASE("leaves: fewer than the ranks are refused; average_metrics also refuses numbers that are no power of two") {
  const std::vector<int> items(29);
  for (const int leaves : {-8, 0, 1, 6}) {
    const auto words = words_of([&] {
      (void)kolo::sharded<const std::vector<int>&>{items, 0, 2, kolo::leaves{leaves}};
    });
    CHECK(contains(words, "not less than the number of ranks") == (leaves < 2));
    tally t;
    kolo::threads::run(2, [&](auto& comm) {
      const double metrics[] = {1, 2, 3};
      t.expect(
          contains(words_of([&] { kolo::average_metrics(comm, metrics, kolo::leaves{leaves}); }), "a power of two"));
    });
    INFO(leaves << " leaves");
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("a norm has the same bits on any number of ranks, and is exact to 1e-15, for any magnitudes") {
  std::vector<float> many(1001);
  for (const float scale : {1.0f, 1e-30f, 1e30f}) {
    long double squares = 0;
    for (std::size_t i = 0; i < many.size(); ++i) {
      many[i] = of_leaf(i, 0, 0, i) * scale;
      squares += static_cast<long double>(many[i]) * static_cast<long double>(many[i]);
    }
    const auto [first, whole] = norms_of(1, many);
    CHECK(first == whole);
    CHECK(std::abs(first / static_cast<double>(std::sqrt(squares)) - 1) < 1e-15);
    CHECK(norms_of(2, many) == std::pair{first, first});
    CHECK(norms_of(4, many) == std::pair{first, first});
  }
  CHECK(norms_of(2, {3, 0, -4}).first == 5);
  CHECK(norms_of(2, {0, 0, 0}).first == 0);
  CHECK(std::isinf(norms_of(2, {1, 2, -std::numeric_limits<float>::infinity()}).first));
  CHECK(std::isnan(norms_of(2, {1, 2, std::nanf("")}).first));
  const std::vector<double> subnormal{3e-310, 4e-310};
  kolo::detail::train::norm_of norm{kolo::detail::train::largest_magnitude(std::span{subnormal})};
  norm.add(std::span{subnormal});
  CHECK(std::abs(norm.root() - 5e-310) < 1e-318);
}

TEST_CASE("leaves: ranks whose gradients are of different types of one length do not add each other's bits") {
  const auto construct = [](auto& comm, auto zero) {
    std::vector<decltype(zero)> value(4), gradient(4);
    struct {
      std::span<decltype(zero)> value, gradient;
    } parameters[] = {{value, gradient}};
    const auto add = [](std::size_t, auto, auto) {};
    struct nothing {
      decltype(add) step;
    };
    kolo::distributed_optimizer optimizer{comm, nothing{add}, parameters, kolo::sum, {.leaves = 2}};
  };
  const auto said = on_threads(2, [&](auto& comm) {
    return words_of([&] { comm.rank() == 0 ? construct(comm, kolo::bfloat16{}) : construct(comm, kolo::float16{}); });
  });
  for (const auto& words : said) CHECK(contains(words, "ranks plan different buckets"));
}

TEST_CASE(
    "leaves: an optimizer that is destroyed in the middle of a step ends its gathers before their memory is freed") {
  struct picky {
    float operator()(float a, float b) const { return a + b > 100 ? throw std::runtime_error("too large") : a + b; }
  };
  constexpr std::size_t n = std::size_t{1} << 18;
  const auto said = on_threads(2, [&](auto& comm) {
    std::vector<float> value(n), other(n), large(n, 1000), small(n, 1);
    const std::vector parameters{parameter{value, large}, parameter{other, small}};  // the last is exchanged first
    kolo::distributed_optimizer optimizer{
        comm, descent{}, parameters, picky{}, {.bucket_bytes = n * sizeof(float), .leaves = 2}};
    try {
      optimizer.leaf();
      optimizer.step();
    } catch (const std::exception& e) {
      return std::string{e.what()};
    }
    return std::string{};
  });
  for (const auto& words : said) CHECK(contains(words, "too large"));
}

TEST_CASE("leaves: elements that operator new does not align are refused; without leaves they are exchanged") {
  struct alignas(2 * __STDCPP_DEFAULT_NEW_ALIGNMENT__) wide {
    double x = 0;
    wide() = default;
    explicit wide(double v) : x{v} {}
    wide operator*(double factor) const { return wide{x * factor}; }
    wide operator/(double divisor) const { return wide{x / divisor}; }
    bool operator==(const wide&) const = default;
  };
  struct add {
    wide operator()(const wide& a, const wide& b) const { return wide{a.x + b.x}; }
  };
  struct take {
    void step(std::size_t, std::span<wide> value, std::span<wide> gradient) { value[0] = gradient[0]; }
  };
  for (const int leaves : {0, 2}) {
    const auto said = on_threads(2, [&](auto& comm) {
      std::vector<wide> value(1), gradient(1, wide{1.0 + comm.rank()});
      struct {
        std::span<wide> value, gradient;
      } parameters[] = {{value, gradient}};
      auto words = words_of([&] {
        kolo::distributed_optimizer{comm, take{}, parameters, add{}, {.leaves = leaves}}.step();
      });
      return words.empty() && value[0].x != 3 ? std::string{"a wrong sum"} : words;
    });
    for (const auto& words : said) CHECK((leaves == 0 ? words.empty() : contains(words, "operator new aligns")));
  }
}

TEST_CASE("leaves: options that one tree cannot combine are refused") {
  kolo::threads::run(2, [](auto& comm) {
    model m{{3}};
    auto parameters = m.parameters();
    const auto refused = [&](const kolo::optimizer_options& o, auto... op) {
      return words_of([&] { kolo::distributed_optimizer{comm, descent{}, parameters, op..., o}; });
    };
    if (!contains(refused({.leaves = 6}), "a power of two") || !contains(refused({.leaves = 1}), "number of ranks") ||
        !contains(refused({.passes = 2, .leaves = 8}), "one backward pass") ||
        !contains(refused({.leaves = 8, .inputs = kolo::uneven::by_all}), "runs out of data") ||
        !contains(refused({.leaves = 8}, kolo::wire<kolo::bfloat16>(kolo::average)), "rounded where ranks meet") ||
        !contains(refused({.leaves = 8}, kolo::ring{}), "name no algorithm"))
      throw std::runtime_error("not refused");
  });
}

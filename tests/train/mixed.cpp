// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Both optimizers with different parameters (two element types, rows, local ones, many tiny ones) and with ranks that join.
#include <kolo/collective/barrier.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/outer_optimizer.hpp>
#include <kolo/train/sharded_checkpoint.hpp>
#include <kolo/train/sharded_parameters.hpp>
#include <kolo/train/state.hpp>
#include <kolo/view/bfloat16.hpp>

#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "train/assorted.hpp"

#include <unistd.h>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

using namespace testing;

namespace {

/// Calls f(make) for each of the two optimizers; make(comm, parameters, options) constructs it.
template <class F>
void with_both(F f) {
  f([](auto& comm, auto&& parameters, const kolo::optimizer_options& o) {
    return kolo::distributed_optimizer{comm,          alone{},      std::forward<decltype(parameters)>(parameters),
                                       kolo::average, kolo::ring{}, o};
  });
  f([](auto& comm, auto&& parameters, const kolo::optimizer_options& o) {
    return kolo::sharded_optimizer{comm,          rule,         std::forward<decltype(parameters)>(parameters),
                                   kolo::average, kolo::ring{}, o};
  });
}

/// Sharded parameters; a step uses them.
template <class Comm>
struct one_layer {
  kolo::sharded_tensor<float> tensor{300};
  kolo::sharded_parameters<Comm, kolo::update::sgd> shards;

  explicit one_layer(Comm& comm) : shards{comm, {}, {{&tensor}}} {}
  void step() { const auto used = shards.use(0); }
};

/// A table with one touched row, and its optimizer.
template <class Comm>
struct one_table {
  std::vector<float> value = std::vector<float>(30), gradient = std::vector<float>(30, 1);
  kolo::row_list rows{.width = 3, .touched = {2}};
  std::vector<any_parameter<float>> all{{value, gradient, false, &rows}};
  decltype(kolo::distributed_optimizer{std::declval<Comm&>(), descent{}, all}) optimizer;

  explicit one_table(Comm& comm) : optimizer{comm, descent{}, all} {}
  void step() { optimizer.step(); }
};

}  // namespace

TEST_CASE("two element types, rows and a local parameter in one replicated or sharded optimizer") {
  with_both([](auto make) {
    for (const int p : {1, 2, 3, 4}) {
      tally t;
      kolo::threads::run(p, [&](auto& comm) {
        assorted mine, reference;
        alone all;
        auto optimizer = make(comm, mine.parameters(), {.bucket_bytes = 200});
        t.expect(optimizer.buckets().buckets.size() == 3 &&
                 optimizer.buckets().buckets[2].parameters == std::vector<std::size_t>{0});
        for (int step = 0; step < 4; ++step) {
          mine.set(comm.rank(), comm.rank() + 1, step, 1, comm.rank());
          reference.set(0, p, step, p, comm.rank());
          const assorted before = mine;
          if (step > 0)
            for (const std::size_t i : {4u, 1u, 2u, 3u, 0u}) optimizer.ready(i);
          if (step > 1) optimizer.synchronize(), t.expect(mine.is(before));
          optimizer.step();
          all.step(reference);
          t.expect(mine.is(reference));
        }
      });
      INFO("ranks " << p);
      CHECK(t.wrong == 0);
    }
  });
}

TEST_CASE("join: with rows and two element types; a joined rank's local parameters do not change") {
  for (const auto inputs : {kolo::uneven::by_all, kolo::uneven::by_those_left})
    with_both([&](auto make) {
      tally t;
      kolo::threads::run(3, [&](auto& comm) {
        assorted mine, reference;
        alone all;
        auto optimizer = make(comm, mine.parameters(), {.bucket_bytes = 200, .inputs = inputs});
        const int own = 2 + comm.rank();
        for (int step = 0; step < own; ++step)
          mine.set(comm.rank(), comm.rank() + 1, step, 1, comm.rank()), optimizer.step();
        t.expect(optimizer.join() == static_cast<std::size_t>(4 - own));
        for (int step = 0; step < 4; ++step) {
          const int first = std::max(0, step - 1);
          reference.set(first, 3, step, inputs == kolo::uneven::by_all ? 3 : 3 - first, comm.rank());
          all.step(reference, step < own);
        }
        t.expect(mine.is(reference));
      });
      CHECK(t.wrong == 0);
    });
}

TEST_CASE("a rank that joins makes the other ranks' calls between synchronize and step") {
  with_both([](auto make) {
    tally t;
    std::vector<assorted> of_rank(3);
    kolo::threads::run(3, [&](auto& comm) {
      assorted& mine = of_rank[static_cast<std::size_t>(comm.rank())];
      auto parameters = mine.parameters();
      auto optimizer = make(comm, parameters, {.bucket_bytes = 200, .inputs = kolo::uneven::by_all});
      const auto clip = [&] {
        if constexpr (requires { optimizer.clip_by_global_norm(1.0); }) optimizer.clip_by_global_norm(1.0);
        else kolo::clip_by_global_norm(parameters, 1.0);
      };
      const int own = 2 + comm.rank();
      for (int step = 0; step < own; ++step)
        mine.set(comm.rank(), comm.rank() + 1, step, 1, comm.rank()), optimizer.synchronize(), clip(), optimizer.step();
      t.expect(optimizer.join(clip) == static_cast<std::size_t>(4 - own));
    });
    const auto& a = of_rank[2];
    for (const auto& b : {of_rank[0], of_rank[1]})
      CHECK((a.f[0] == b.f[0] && a.f[1] == b.f[1] && a.d[0] == b.d[0] && a.d[1] == b.d[1]));
    CHECK(a.f[0] != assorted{}.f[0]);
    CHECK(t.wrong == 0);
  });
}

TEST_CASE("a sharded checkpoint holds all element types and local parameters, and loads on fewer or more ranks") {
  const scratch_directory here;
  for (const int later : {2, 3}) {
    tally t;
    std::vector<assorted> saved(2);
    const auto steps = [](auto& comm, auto& optimizer, assorted& mine, int first, int last) {
      for (int step = first; step < last; ++step) mine.set(0, 1, step, 1, comm.rank() % 2), optimizer.step();
    };
    kolo::threads::run(2, [&](auto& comm) {
      assorted& mine = saved[static_cast<std::size_t>(comm.rank())];
      kolo::sharded_optimizer optimizer{comm, rule, mine.parameters(), {.bucket_bytes = 200}};
      steps(comm, optimizer, mine, 0, 3);
      kolo::save_sharded_checkpoint(here / "model", optimizer);
      steps(comm, optimizer, mine, 3, 5);
    });
    kolo::threads::run(later, [&](auto& comm) {
      assorted mine;
      kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
      kolo::load_sharded_checkpoint(here / "model", optimizer);
      steps(comm, optimizer, mine, 3, 5);
      t.expect(mine.is(saved[static_cast<std::size_t>(comm.rank() % 2)]));
    });
    INFO("ranks " << later);
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("a checkpoint loaded during training clears what error feedback has kept") {
  const scratch_directory here;
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    model mine{{300}}, other{{300}};
    const auto made = [&](model& m) {
      const auto op = kolo::wire<kolo::bfloat16>(kolo::average);
      using optimizer = decltype(kolo::sharded_optimizer{comm, rule, m.parameters(), op});
      return std::make_unique<optimizer>(comm, rule, m.parameters(), op,
                                         kolo::optimizer_options{.error_feedback = true});
    };
    const auto step = [](auto& optimizer, model& m, float gradient) {
      m.gradients[0].assign(300, gradient), optimizer->step();
    };
    const auto at_work = made(mine);
    kolo::save_sharded_checkpoint(here / "model", *at_work);
    step(at_work, mine, 1 + 0x1p-9f);  // bfloat16: 1, or 1 + 2^-7
    kolo::load_sharded_checkpoint(here / "model", *at_work);
    const auto fresh = made(other);
    step(at_work, mine, 1 + 0x1.8p-9f), step(fresh, other, 1 + 0x1.8p-9f);
    t.expect(mine.values == other.values && mine.values != model{{300}}.values);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("local parameters of different sizes per rank load on 1 to 3 ranks; other sizes are refused") {
  const scratch_directory here;
  struct owner {
    std::vector<float> shared, own, of_shared = shared, of_own = own;
    std::vector<any_parameter<float>> parameters() { return {{shared, of_shared}, {own, of_own, true}}; }
  };
  const auto of_rank = [](int r, float x) {
    return owner{std::vector<float>(10, x), std::vector<float>(4 + 2 * static_cast<std::size_t>(r % 2), x + 1)};
  };
  kolo::threads::run(2, [&](auto& comm) {
    owner mine = of_rank(comm.rank(), 3);
    mine.own.back() = static_cast<float>(comm.rank());
    kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
    kolo::save_sharded_checkpoint(here / "model", optimizer);
  });
  for (const int later : {1, 2, 3}) {
    tally t;
    kolo::threads::run(later, [&](auto& comm) {
      owner mine = of_rank(comm.rank(), 0), wanted = of_rank(comm.rank(), 3);
      wanted.own.back() = static_cast<float>(comm.rank() % 2);
      kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
      kolo::load_sharded_checkpoint(here / "model", optimizer);
      t.expect(mine.shared == wanted.shared && mine.own == wanted.own);
    });
    INFO("ranks " << later);
    CHECK(t.wrong == 0);
  }
  const auto why = words_of([&] {
    kolo::threads::run(1, [&](auto& comm) {
      owner mine = of_rank(1, 0);  // rank 0 saved fewer elements
      kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
      kolo::load_sharded_checkpoint(here / "model", optimizer);
    });
  });
  CHECK(contains(why, "a checkpoint of another model"));
}

TEST_CASE("a local parameter counts the steps for which its rank had data, also after a checkpoint is loaded") {
  const scratch_directory here;
  tally t;
  const auto train = [&](auto& comm, int from) {
    std::vector<float> value(10), gradient(10), own(4), of_own(4);
    const std::vector<any_parameter<float>> parameters{{value, gradient}, {own, of_own, true}};
    kolo::sharded_optimizer optimizer{comm, counting{}, parameters, {.inputs = kolo::uneven::by_all}};
    if (from > 0) kolo::load_sharded_checkpoint(here / "model", optimizer);
    for (int step = 0; step <= 2 * comm.rank(); ++step) optimizer.step();
    optimizer.join();
    if (from == 0) kolo::save_sharded_checkpoint(here / "model", optimizer);
    for (const float x : value) t.expect(x == static_cast<float>(from + 2 * comm.size() - 1));
    const int before = from == 0 ? 0 : 2 * (comm.rank() % 2) + 1;
    for (const float x : own) t.expect(x == static_cast<float>(before + 2 * comm.rank() + 1));
  };
  kolo::threads::run(2, [&](auto& comm) { train(comm, 0); });
  for (const int p : {1, 3}) kolo::threads::run(p, [&](auto& comm) { train(comm, 3); });
  CHECK(t.wrong == 0);
}

TEST_CASE("a step whose rows cannot be exchanged is abandoned, and the next one adds no gradient twice") {
  for (const int p : {1, 2}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) {
      std::vector<float> dense(4), its(4), table(8), of_table(8);
      kolo::row_list rows{.width = 2};
      std::vector<any_parameter<float>> all{{dense, its, false, nullptr}, {table, of_table, false, &rows}};
      kolo::distributed_optimizer optimizer{comm, kolo::replicated{kolo::update::sgd{.rate = 1}}, all, {.passes = 2}};
      const auto pass = [&](float sum) {
        std::fill(its.begin(), its.end(), sum);
        return optimizer.step();
      };
      t.expect(!pass(4));
      if (p == 1) rows.touched = {7};  // the table has 4 rows
      else rows.width = comm.rank() == 0 ? 2 : 4;
      t.expect(!words_of([&] { pass(8); }).empty());
      rows.width = 2, rows.touched = {0};
      t.expect(!pass(4) && dense[0] == 0 && pass(8) && dense[0] == -4);
    });
    INFO(p << " ranks");
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("join: a step whose rows cannot be exchanged leaves no count of the ranks for the next one") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    std::vector<float> dense(4), its(4, 4), table(8), of_table(8);
    kolo::row_list rows{.width = comm.rank() == 0 ? 2u : 4u};
    std::vector<any_parameter<float>> all{{dense, its, false, nullptr}, {table, of_table, false, &rows}};
    kolo::distributed_optimizer optimizer{
        comm, kolo::replicated{kolo::update::sgd{.rate = 1}}, all, {.inputs = kolo::uneven::by_those_left}};
    t.expect(!words_of([&] { optimizer.step(); }).empty());
    rows.width = 2;
    its.assign(4, 4);
    if (comm.rank() == 1) optimizer.step();
    t.expect(optimizer.join() == (comm.rank() == 0 ? 1 : 0) && dense[0] == -4);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("sharded_optimizer: a step whose rows cannot be exchanged updates nothing") {
  for (const int p : {1, 2}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) {
      std::vector<float> dense(4), its(4, 1), table(8), of_table(8);
      kolo::row_list rows{.width = 2};
      std::vector<any_parameter<float>> all{{dense, its, false, nullptr}, {table, of_table, false, &rows}};
      kolo::sharded_optimizer optimizer{comm, kolo::update::sgd{.rate = 1}, all};
      if (p == 1) rows.touched = {7};  // the table has 4 rows
      else rows.width = comm.rank() == 0 ? 2 : 4;
      t.expect(!words_of([&] { optimizer.step(); }).empty() && dense == std::vector<float>(4));
      rows.width = 2, rows.touched = {0};
      std::fill(its.begin(), its.end(), 1.0f);
      for (const std::size_t i : {0u, 1u}) optimizer.ready(i);
      optimizer.synchronize();
      t.expect(dense == std::vector<float>(4));
      t.expect(optimizer.step() && dense == std::vector<float>(4, -1));
    });
    INFO(p << " ranks");
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("parameters marked ready in an abandoned step need not be ready in the next one") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    std::vector<float> dense(4), its(4, 1), table(8), of_table(8), expert(2), of_expert(2, 1);
    kolo::row_list rows{.width = static_cast<std::size_t>(comm.rank() == 0 ? 2 : 4)};
    std::vector<any_parameter<float>> all{
        {dense, its, false, nullptr}, {table, of_table, false, &rows}, {expert, of_expert, true, nullptr}};
    kolo::distributed_optimizer optimizer{comm, kolo::replicated{kolo::update::sgd{.rate = 1}}, all};
    for (const std::size_t i : {0u, 1u, 2u}) optimizer.ready(i);
    t.expect(!words_of([&] { optimizer.step(); }).empty());
    rows.width = 2;
    optimizer.zero_gradients();
    std::fill(its.begin(), its.end(), 1.0f);
    for (const std::size_t i : {0u, 1u}) optimizer.ready(i);  // this rank's expert is not used in this step
    t.expect(words_of([&] { t.expect(optimizer.step() && dense[0] == -1); }).empty());
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("a step whose gradients overflowed is skipped on all ranks, joined ones included") {
  with_both([](auto make) {
    for (const int p : {1, 2, 3}) {
      tally t;
      kolo::threads::run(p, [&](auto& comm) {
        assorted mine, reference;
        alone all;
        auto parameters = mine.parameters();
        auto optimizer = make(comm, parameters, {.bucket_bytes = 200, .inputs = kolo::uneven::by_all});
        long skipped = 0;
        const auto clip = [&] {
          double norm = 0;
          if constexpr (requires { optimizer.clip_by_global_norm(1.0); }) norm = optimizer.clip_by_global_norm(1e9);
          else norm = kolo::clip_by_global_norm(parameters, 1e9);
          if (!std::isfinite(norm)) optimizer.skip_step(), ++skipped;
          return std::isfinite(norm);
        };
        const int own = comm.rank() == 0 ? 4 : 2;
        for (int step = 0; step < 4; ++step) {
          if (step < own) mine.set(comm.rank(), comm.rank() + 1, step, 1, comm.rank());
          if (step < own && comm.rank() == 0 && step % 2 == 1)
            mine.of_d[1][129] = std::numeric_limits<double>::infinity();
          if (step < own) optimizer.synchronize();
          if (step < own && clip()) optimizer.step();
          reference.set(0, step < 2 ? p : 1, step, p, comm.rank());
          if (step % 2 == 0) all.step(reference, step < own);
        }
        optimizer.join(clip);
        t.expect(skipped == 2 && mine.is(reference));
        t.expect(contains(words_of([&] { optimizer.skip_step(); }), "skip_step comes after synchronize"));
      });
      INFO("ranks " << p);
      CHECK(t.wrong == 0);
    }
  });
}

TEST_CASE("broadcast and restore do not change local parameters, which may have different sizes on each rank") {
  const scratch_directory here;
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    const auto r = static_cast<std::size_t>(comm.rank());
    const auto x = static_cast<float>(r);
    std::vector<float> shared(3, x), own(2 + r, x);
    std::vector<any_parameter<float>> parameters{{own, own, true}, {shared, shared}};
    kolo::broadcast_parameters(comm, parameters, 1);
    t.expect(shared == std::vector<float>(3, 1) && own == std::vector<float>(2 + r, x));
    if (r == 1) kolo::save_checkpoint(here / "model", parameters);
    shared.assign(3, 5), own.assign(2 + r, x + 7);
    kolo::restore_checkpoint(comm, here / "model", parameters, 1);
    t.expect(shared == std::vector<float>(3, 1));
    t.expect(own == std::vector<float>(2 + r, r == 0 ? 7.0f : 1.0f));  // rank 1 wrote the file
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("two element types are broadcast, clipped together, saved and loaded; a group has one element type") {
  const scratch_directory here;
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    assorted mine, other;
    mine.f[0][3] = mine.f[1][59] = static_cast<float>(mine.d[1][129] = comm.rank() + 5);
    kolo::broadcast_parameters(comm, mine.parameters(), 1);
    t.expect(mine.f[0][3] == 6 && mine.f[1][59] == 6 && mine.d[1][129] == 6);
    mine.of_f[0][0] = 6, mine.of_d[1][0] = 8;
    t.expect(kolo::clip_by_global_norm(mine.parameters(), 5) == 10 && mine.of_f[0][0] == 3 && mine.of_d[1][0] == 4);
    if (comm.rank() == 0) kolo::save_checkpoint(here / "model", mine.parameters());
    kolo::restore_checkpoint(comm, here / "model", other.parameters());
    t.expect(mine.is(other));
    t.expect(contains(words_of([&] {
                        kolo::distributed_optimizer optimizer{comm, alone{}, other.parameters(), {.groups = {{0, 3}}}};
                      }),
                      "whose element type is not that"));
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("many tiny gradients are packed, and the plan says so; long ones are not packed") {
  for (const bool with_helper : {false, true}) {
    tally t;
    kolo::threads::run(3, [&](auto& comm) {
      std::vector<std::size_t> sizes{3000, 2000};
      for (std::size_t i = 0; i < 60; ++i) sizes.push_back(i % 9);
      model mine{sizes}, reference{sizes};
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      kolo::distributed_optimizer optimizer{
          comm, descent{}, mine.parameters(), {.bucket_bytes = 8192, .helper = with_helper ? &exchange : nullptr}};
      const auto& plan = optimizer.buckets();
      t.expect(plan.buckets.size() == 2 + (plan.buckets[0].elements < 2000) && plan.buckets.front().is_packed &&
               !plan.buckets.back().is_packed);
      t.expect(contains(plan.message(), " tensors, packed: parameter 61"));
      for (int step = 0; step < 3; ++step) {
        for (std::size_t i = sizes.size(); i-- > 0;) mine.set_gradient(comm.rank(), step, i), optimizer.ready(i);
        optimizer.step();
        reference.set_sums(0, 3, step, 3), step_alone(optimizer.inner(), reference);
        t.expect(mine.values == reference.values && mine.gradients == reference.gradients);
      }
    });
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("an optimizer for each half of the ranks works beside one over all ranks") {
  tally t;
  kolo::threads::run(4, [&](auto& comm) {
    auto half = comm.split(comm.rank() / 2, comm.rank());
    const std::vector<std::size_t> sizes{50, 3};
    model ours{sizes}, all{sizes}, of_half{sizes}, of_all{sizes};
    kolo::distributed_optimizer within{half, descent{}, ours.parameters()};
    kolo::sharded_optimizer over{comm, kolo::update::sgd{.rate = 0.5}, all.parameters()};
    for (int step = 0; step < 3; ++step) {
      ours.set_gradients(comm.rank(), step), all.set_gradients(comm.rank(), step + 10);
      within.step(), over.step();
      of_half.set_sums(comm.rank() / 2 * 2, 2, step, 2), step_alone(within.inner(), of_half);
      of_all.set_sums(0, 4, step + 10, 4), step_alone(within.inner(), of_all);
      t.expect(ours.values == of_half.values && all.values == of_all.values);
    }
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("steps of two similar optimizers in a different order on one rank are a mismatch, named in checked mode") {
  const auto nothing = [](auto&) {};
  const auto synchronize = [](auto& o) { o.synchronize(); };
  const auto step = [](auto& o) { o.step(); };
  const auto clip = [](auto& o) { o.clip_by_global_norm(1); };
  const auto check = [](auto make, auto before, auto call) {
    for (const bool is_checked : {false, true}) {
      std::string words[2];
      kolo::threads::run(2,
                         [&](auto& comm) {
                           model a{{300}}, b{{300}};
                           auto of_a = a.parameters(), of_b = b.parameters();
                           auto first = make(comm, of_a);
                           auto second = make(comm, of_b);
                           before(first), before(second);
                           words[comm.rank()] = words_of([&] { comm.rank() == 0 ? call(first) : call(second); });
                         },
                         {.checked = is_checked});
      for (const auto& text : words) {
        INFO(text);
        if (!is_checked) CHECK(contains(text, "root or optimizer"));
        else
          CHECK((contains(text, "the optimizer differs: rank 0 calls ") && contains(text, ", for optimizer 1, at ") &&
                 contains(text, ", for optimizer 2, at ")));
      }
    }
  };
  const auto sharded = [](auto& comm, auto& of) { return kolo::sharded_optimizer{comm, rule, of}; };
  const auto layer = [](auto& comm, auto&) { return one_layer<std::remove_reference_t<decltype(comm)>>{comm}; };
  check([](auto& comm, auto& of) { return kolo::distributed_optimizer{comm, descent{}, of}; }, nothing, step);
  check(sharded, nothing, step);
  check(sharded, synchronize, step);
  check(sharded, synchronize, clip);
  check([](auto& comm, auto& of) { return kolo::outer_optimizer{comm, rule, of}; }, nothing, step);
  check(layer, nothing, step);
  check(layer, nothing, [&](auto& o) { clip(o.shards); });
  check([](auto& comm, auto&) { return one_table<std::remove_reference_t<decltype(comm)>>{comm}; }, nothing, step);
  tally t;
  kolo::threads::run(2,
                     [&](auto& comm) {
                       model mine{{300}};
                       auto parameters = mine.parameters();
                       kolo::sharded_optimizer optimizer{comm, rule, parameters};
                       int x = 1;
                       const auto make = [&] { return kolo::plan_allreduce(comm, std::span{&x, 1}, kolo::sum); };
                       std::optional all{make()};  // belongs to no optimizer, whenever it is made
                       optimizer.step();
                       if (comm.rank() == 1) all.emplace(make());
                       all->run();
                       t.expect(x == 2);
                     },
                     {.checked = true});
  CHECK(t.wrong == 0);
}

TEST_CASE("sharded_optimizer: misuse throws an error, and the other rank gets it") {
  const auto check = [](const char* expected, auto wrong) {
    std::string first, second;
    kolo::threads::run(2, [&](auto& comm) {
      model mine{{5, 300, 41}};
      auto parameters = mine.parameters();
      kolo::sharded_optimizer optimizer{comm, rule, parameters};
      (comm.rank() == 0 ? first : second) =
          words_of([&] { misuse_in_second_step(comm, optimizer, mine, [&] { wrong(optimizer, mine, parameters); }); });
    });
    INFO(first << "\n" << second);
    CHECK(contains(first, expected));
    CHECK(contains(second, "rank 0"));
  };
  check("step without a backward pass", [](auto& o, model&, auto&) { o.step(); });
  check("parameter 2 was ready twice", [](auto& o, model&, auto&) { o.ready(2), o.ready(2); });
  check("zero_gradients was called between", [](auto& o, model&, auto&) { o.ready(2), o.zero_gradients(); });
  check("parameter 1 changed its shape: from 300 values to 299",
        [](auto& o, model&, auto& p) { p[1].value = p[1].value.first(299), o.ready(1); });
  check("join needs to be asked for", [](auto& o, model&, auto&) { o.join(); });
  check("clip_by_global_norm comes after synchronize", [](auto& o, model&, auto&) { o.clip_by_global_norm(1.0); });
}

TEST_CASE("parameters that share elements are refused; columns of one matrix share none") {
  std::vector<float> a(10), b(10), of_a(10), of_b(10);
  const std::span first{a}, second{b}, of_first{of_a}, of_second{of_b};
  const auto why = [&](const std::vector<parameter>& of, bool is_sharded) {
    return words_of([&] {
      kolo::threads::run(1, [&](auto& comm) {
        if (is_sharded) kolo::sharded_optimizer{comm, rule, of};
        else kolo::distributed_optimizer{comm, descent{}, of};
      });
    });
  };
  const std::string words = "parameter 0 and parameter 1 share elements";
  for (const bool is_sharded : {false, true}) {
    CHECK(contains(why({{first, of_first}, {second, of_first}}, is_sharded), words));
    CHECK(contains(why({{first.first(5), of_first.first(5)}, {second.first(6), of_first.last(6)}}, is_sharded), words));
    CHECK(why({{first.first(4), of_first.first(4)}, {first.last(6), of_first.last(6)}}, is_sharded).empty());
    CHECK(contains(why({{first, of_first}, {first, of_second}}, is_sharded), words) == is_sharded);
    const auto apart = [&](const std::string& one, const std::string& other, const std::vector<parameter>& of) {
      const auto said = why(of, is_sharded);
      const auto pair = [](const std::string& left, const std::string& right) {
        return left + " and " + right + " share elements";
      };
      CHECK((contains(said, pair(one, other)) || contains(said, pair(other, one))));
    };
    apart("the value of parameter 0", "the gradient of parameter 0", {{first, first}});
    apart("the value of parameter 0", "the gradient of parameter 0", {{first.first(6), first.last(6)}});
    apart("the value of parameter 1", "the gradient of parameter 0", {{first, of_first}, {of_first, of_second}});
    apart("the value of parameter 0", "the gradient of parameter 2",
          {{first, of_first}, {first.first(2), of_second.first(2)}, {second.first(1), first.subspan(6, 1)}});
  }
  std::string other;
  kolo::threads::run(2, [&](auto& comm) {
    model mine{{5, 300}};
    auto of = mine.parameters();
    if (comm.rank() == 0) of.push_back(of[0]);
    const auto said_here = words_of([&] { kolo::distributed_optimizer{comm, descent{}, of}; });
    if (comm.rank() == 1) other = said_here;
    kolo::barrier(comm);  // the communicator remains usable
  });
  CHECK(contains(other, "ranks plan different buckets"));
  kolo::threads::run(1, [&](auto& comm) {
    struct column {
      kolo::strided<float, 1> value, gradient;
    };
    std::vector<column> both;
    for (std::size_t i : {0u, 1u}) both.push_back({{&a[i], {5}, {2}}, {&of_a[i], {5}, {2}}});
    kolo::sharded_optimizer{comm, rule, both};
    const std::vector<column> value_and_gradient{{{&a[0], {5}, {2}}, {&a[1], {5}, {2}}}};  // by turns
    kolo::sharded_optimizer{comm, rule, value_and_gradient};
  });
}

TEST_CASE("ranks that plan different buckets each report what the other has not, if it has no elements or no bucket") {
  const auto reported = [](any_parameter<float> more, bool is_first) {
    std::string all[2];
    kolo::threads::run(2, [&](auto& comm) {
      struct named : any_parameter<float> {
        std::string name = "one";
      };
      std::vector<float> value(5), gradient(5);
      std::vector<named> parameters{{{value, gradient}}};
      if (comm.rank() == 1) parameters.insert(is_first ? parameters.begin() : parameters.end(), {more});
      all[comm.rank()] = words_of([&] { kolo::distributed_optimizer{comm, descent{}, parameters}; });
    });
    for (const auto& words : all) CHECK(contains(words, "ranks plan different buckets"));
    const auto here = [](const std::string& words) { return words.substr(words.find("here: ")); };
    CHECK(here(all[0]) != here(all[1]));
    return here(all[1]);
  };
  kolo::row_list rows;
  CHECK(contains(reported({}, false), "here: 2 parameters (1 empty, 0 with rows, 0 local) in 1 bucket of"));
  CHECK(contains(reported({.rows = &rows}, false), "(1 empty, 1 with rows, 0 local)"));
  CHECK(contains(reported({.local = true}, true), "(1 empty, 0 with rows, 1 local)"));
}

TEST_CASE("shared elements are found in views with and without gaps, also within one view") {
  struct grid {
    kolo::strided<float, 2> value, gradient;
  };
  std::uint32_t x = 1;
  const auto random = [&](std::uint32_t below) { return (x = x * 1664525u + 1013904223u) / 65536u % below; };
  int refused = 0;
  kolo::threads::run(1, [&](auto& comm) {
    for (std::uint32_t trial = 0; trial < 1000; ++trial) {
      std::vector<float> values(500), gradients(400);
      std::vector<int> owners(400);
      std::vector<grid> all;
      bool shares = false;
      for (std::uint32_t k = 0; k < 2 + trial % 4; ++k) {
        const std::uint32_t rows = 1 + random(3), columns = random(4);
        const int down = static_cast<int>(random(41)) - 20, right = static_cast<int>(random(9)) - 4, first = 200;
        const int at = first + static_cast<int>(random(120)) - 60;
        all.push_back({{&values[100 * k], {rows, columns}, {columns, 1}},
                       {&gradients[static_cast<std::size_t>(at)], {rows, columns}, {down, right}}});
        for (int i = 0; i < static_cast<int>(rows); ++i)
          for (int j = 0; j < static_cast<int>(columns); ++j)
            shares |= owners[static_cast<std::size_t>(at + i * down + j * right)]++ > 0;
      }
      const auto why = words_of([&] { kolo::distributed_optimizer{comm, kolo::replicated{kolo::update::sgd{}}, all}; });
      refused += shares;
      CHECK(contains(why, "share elements") == shares);
    }
  });
  CHECK((refused > 300 && refused < 700));
}

TEST_CASE("sharded_optimizer: a rank with one batch fewer fails the other rank at once") {
  std::string other;
  kolo::threads::run(2, [&](auto& comm) {
    model mine{{5, 300}};
    kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
    const auto why = words_of([&] {
      for (int step = 0; step < 3 + comm.rank(); ++step) mine.set_gradients(comm.rank(), step), optimizer.step();
    });
    if (comm.rank() == 1) other = why;
  });
  CHECK(contains(other, "rank 0"));
}

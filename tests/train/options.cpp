// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of distributed_optimizer, and the arguments that it refuses.
#include <kolo/collective/barrier.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/scaled.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/shm/slot_transport.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/sharded.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include "support/catch.hpp"
#include "train/model.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>

using namespace testing;

namespace {

const std::vector<std::size_t> sizes{5, 300, 41};

/// Runs f(comm) on 1 to 4 threads; it returns whether all was right.
template <class F>
void on_ranks(F f) {
  for (const int p : {1, 2, 3, 4}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) { t.expect(f(comm)); });
    INFO("ranks " << p);
    CHECK(t.wrong == 0);
  }
}

/// Checks both errors if rank 0 of two makes a mistake and the other rank does not; with a helper and without.
template <class Wrong>
void check_refusal(const std::string& expected, Wrong wrong, const kolo::optimizer_options& options = {}) {
  for (const bool is_helped : {false, true}) {
    std::string first, second;
    kolo::threads::run(2, [&](auto& comm) {
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      auto o = options;
      if (is_helped) o.helper = &exchange;
      model mine{sizes};
      auto parameters = mine.parameters();
      kolo::distributed_optimizer optimizer{comm, descent{}, parameters, o};
      (comm.rank() == 0 ? first : second) =
          words_of([&] { misuse_in_second_step(comm, optimizer, mine, [&] { wrong(optimizer, mine, parameters); }); });
    });
    INFO(is_helped << "\n" << first << "\n" << second);
    CHECK(contains(first, expected));
    CHECK(contains(second, "rank 0: refused its arguments"));
  }
}

/// Two steps, a skipped step, two steps: returns whether they have the bits of two optimizers, one before the skipped step and one after it.
template <class Comm, class Make>
bool skip_has_no_effect(Comm& comm, Make make, const kolo::optimizer_options& options, float dropped) {
  model mine{sizes}, reference{sizes};
  const auto backward = [&](auto& optimizer, model& m, int step, bool is_dropped) {
    for (int pass = 0; pass < options.passes; ++pass) {
      for (std::size_t t = 0; t < sizes.size(); ++t) {
        for (std::size_t i = 0; i < sizes[t]; ++i)  // bfloat16 has 2^-7, eight bits 1 / 127
          m.gradients[t][i] = (pass > 0 ? m.gradients[t][i] : 0) + 1 + 0x1p-10f * static_cast<float>((i + 3) % 8 + t) +
                              static_cast<float>(comm.rank() + step % 2);
        if (is_dropped && t == 1 && comm.rank() == comm.size() - 1) m.gradients[1][3] += dropped;
        optimizer.ready(t);
      }
      if (pass + 1 < options.passes && optimizer.step()) return false;
    }
    optimizer.synchronize();
    return true;
  };
  auto parameters = mine.parameters(), others = reference.parameters();
  auto optimizer = make(comm, parameters, options);
  bool is_right = true;
  for (const int first : {0, 2}) {
    auto alone = make(comm, others, {.passes = options.passes, .error_feedback = options.error_feedback});
    for (const int step : {first, first + 1}) {
      is_right &= backward(optimizer, mine, step, false) && optimizer.step();
      is_right &= backward(alone, reference, step, false) && alone.step();
    }
    is_right &= backward(optimizer, mine, 7, true);
    optimizer.skip_step();
    is_right &= mine.values == reference.values;
  }
  return is_right;
}

struct table_and_bias {
  std::span<float> value, gradient;
  bool local = false;
  kolo::row_list* rows = nullptr;
  const char* name = "a table";
};

}  // namespace

TEST_CASE("operator and algorithm together: sums instead of means, by ring") {
  on_ranks([](auto& comm) {
    model mine{sizes}, reference{sizes};
    kolo::distributed_optimizer optimizer{comm,      descent{},    mine.parameters(),
                                          kolo::sum, kolo::ring{}, {.bucket_bytes = 64}};
    mine.set_gradients(comm.rank(), 0);
    optimizer.step();
    reference.set_sums(0, comm.size(), 0, 1);
    step_alone(optimizer.inner(), reference);
    return mine.values == reference.values;
  });
}

TEST_CASE("predivide: gradients do not overflow in a 16-bit wire format") {
  on_ranks([](auto& comm) {
    model mine{sizes};
    kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(),
                                          kolo::wire<kolo::float16>(kolo::predivide(kolo::average, 16))};
    for (auto& tensor : mine.gradients)
      std::fill(tensor.begin(), tensor.end(), 49152.0f);  // twice that is too large for float16
    optimizer.synchronize();
    return mine.gradients == std::vector<std::vector<float>>{std::vector<float>(5, 49152),
                                                             std::vector<float>(300, 49152),
                                                             std::vector<float>(41, 49152)};
  });
}

TEST_CASE("predivide: a factor that is not a positive finite number is refused") {
  for (const float factor :
       {0.0f, -2.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    on_ranks([&](auto& comm) {
      model mine{sizes};
      const auto op = kolo::wire<kolo::bfloat16>(kolo::predivide(kolo::average, factor));
      return contains(words_of([&] {
                        kolo::distributed_optimizer{comm, descent{}, mine.parameters(), op};
                      }),
                      "predivide(op, factor)");
    });
}

TEST_CASE("passes: the gradients of several backward passes are summed, and become their mean") {
  on_ranks([](auto& comm) {
    model mine{sizes}, reference{sizes}, one{sizes};
    kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), {.passes = 4}};
    bool right = true;
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_gradients();
      reference.set_sums(0, comm.size(), 100, INFINITY);  // zeros
      for (int pass = 0; pass < 4; ++pass) {
        for (std::size_t t = 0; t < sizes.size(); ++t) {
          for (std::size_t i = 0; i < sizes[t]; ++i) mine.gradients[t][i] += model::at(comm.rank(), pass + step, t, i);
          one.set_sums(0, comm.size(), pass + step, 1);
          for (std::size_t i = 0; i < sizes[t]; ++i) reference.gradients[t][i] += one.gradients[t][i] / 4;
          if (step == 1) optimizer.ready(t);
        }
        right = right && optimizer.step() == (pass == 3);
      }
      for (auto& tensor : reference.gradients)
        for (float& g : tensor) g /= static_cast<float>(comm.size());
      step_alone(optimizer.inner(), reference);
    }
    return right && mine.values == reference.values;
  });
}

struct sum_of_four {  // its members have the names of predivide's
  kolo::sum_t op{};
  float factor = 4;
  template <class T>
  T operator()(const T& a, const T& b) const {
    return op(a, b);
  }
};
TEST_CASE("predivide: an operator with members of the same names is not divided") {
  on_ranks([](auto& comm) {
    model mine{sizes}, reference{sizes};
    kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), sum_of_four{}};
    mine.set_gradients(comm.rank(), 0);
    optimizer.step();
    reference.set_sums(0, comm.size(), 0, 1);
    step_alone(optimizer.inner(), reference);
    return mine.values == reference.values;
  });
}

TEST_CASE("clip_by_global_norm clips all gradients together between the exchange and the step") {
  on_ranks([](auto& comm) {
    model mine{{1, 1}};
    auto parameters = mine.parameters();
    kolo::distributed_optimizer optimizer{comm, descent{}, parameters};
    mine.gradients = {{6.0f * static_cast<float>(comm.rank() == 0 ? comm.size() : 0)}, {8}};
    optimizer.synchronize();
    const double norm = kolo::clip_by_global_norm(parameters, 5);
    const bool clipped = mine.gradients[0][0] == 3 && mine.gradients[1][0] == 4;
    return norm == 10 && clipped && kolo::clip_by_global_norm(parameters, 5) == 5 && mine.gradients[0][0] == 3;
  });
}

TEST_CASE("clip_by_global_norm: a limit that is not positive is refused, and the step uses the unclipped gradients") {
  for (const double limit : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    on_ranks([&](auto& comm) {
      const auto refuses = [&](auto clip) { return contains(words_of(clip), "takes a limit greater than 0, not "); };
      model mine{sizes}, other{sizes};
      auto parameters = mine.parameters();
      kolo::distributed_optimizer replicated{comm, descent{}, parameters};
      kolo::sharded_optimizer sharded{comm, kolo::update::sgd{.rate = 0.5}, other.parameters()};
      for (model* const m : {&mine, &other}) m->set_gradients(comm.rank(), 0);
      replicated.synchronize(), sharded.synchronize();
      return refuses([&] { kolo::clip_by_global_norm(parameters, limit); }) && replicated.step() &&
             refuses([&] { sharded.clip_by_global_norm(limit); }) && sharded.step() && mine.values == other.values &&
             mine.values != model{sizes}.values;
    });
}

TEST_CASE("error_feedback: what the wire format rounds away is sent later; without it, it is lost") {
  for (const bool feedback : {true, false}) {
    tally t;
    kolo::threads::run(2, [&](auto& comm) {
      model mine{{100}};
      std::fill(mine.values[0].begin(), mine.values[0].end(), 0.0f);
      kolo::distributed_optimizer optimizer{comm,
                                            descent{1},
                                            mine.parameters(),
                                            kolo::wire<kolo::bfloat16>(kolo::average),
                                            {.passes = 3, .error_feedback = feedback}};
      for (int step = 0; step < 64; ++step)
        for (const float pass : {1.0f, 2.0f, 3.0f}) {  // bfloat16 has 1 and 1 + 2^-7
          std::fill(mine.gradients[0].begin(), mine.gradients[0].end(), pass * (1 + 0x1p-10f));
          optimizer.step();
        }
      const float learned = -mine.values[0][50];
      t.expect(feedback ? std::abs(learned - 64 * (1 + 0x1p-10f)) <= 0x1p-7f : learned == 64);
    });
    CHECK(t.wrong == 0);
  }
  for (const bool feedback : {true, false}) {  // the groups of a wire format with scales cross tensors
    tally t;
    kolo::threads::run(2, [&](auto& comm) {
      model mine{{40, 41}};
      for (auto& v : mine.values) std::fill(v.begin(), v.end(), 0.0f);
      kolo::distributed_optimizer optimizer{comm,
                                            descent{1},
                                            mine.parameters(),
                                            kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::average),
                                            {.error_feedback = feedback}};
      for (int step = 0; step < 64; ++step) {
        for (auto& g : mine.gradients) std::fill(g.begin(), g.end(), 1 + 0x1p-10f);
        for (auto& g : mine.gradients) g[3] = 127;  // the scale: 1
        mine.gradients[0][20] = mine.gradients[0][38] = 127;
        optimizer.step();
      }
      const float learned = -mine.values[0][5];
      t.expect(feedback ? std::abs(learned - 64 * (1 + 0x1p-10f)) <= 1 : learned == 64);
    });
    CHECK(t.wrong == 0);
  }
  kolo::threads::run(1, [](auto& comm) {  // nothing is sent
    model mine{{1}};
    kolo::distributed_optimizer optimizer{
        comm, descent{}, mine.parameters(), kolo::wire<kolo::bfloat16>(kolo::average), {.error_feedback = true}};
    mine.gradients[0] = {1 + 0x1p-10f};
    optimizer.step();
    CHECK(mine.gradients[0][0] == 1 + 0x1p-10f);
  });
  CHECK(
      contains(words_of([] {
                 kolo::threads::run(1, [](auto& comm) {
                   model mine{{1}};
                   kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), {.error_feedback = true}};
                 });
               }),
               "this operator has no wire type"));
}

TEST_CASE("error_feedback: values that are not finite are not kept, and the next gradients are right") {
  const auto next_means = [](auto op, float too_much) {
    tally t;
    kolo::threads::run(2, [&](auto& comm) {
      model mine{{40, 41}};
      kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), op, {.error_feedback = true}};
      for (int step = 0; step < 3; ++step) {
        for (auto& g : mine.gradients) std::fill(g.begin(), g.end(), 127.0f);
        if (step == 0 && comm.rank() == 1) mine.gradients[0][3] = too_much;
        optimizer.step();
        t.expect(std::isfinite(mine.gradients[0][3]) == (step > 0));
        if (step > 0) t.expect(mine.gradients == std::vector{std::vector<float>(40, 127), std::vector<float>(41, 127)});
      }
    });
    return t.wrong == 0;
  };
  CHECK(next_means(kolo::wire<kolo::float16>(kolo::average), 1e6f));  // finite, but infinite in the wire format
  CHECK(next_means(kolo::wire<kolo::bfloat16>(kolo::average), INFINITY));
  CHECK(next_means(kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::average), INFINITY));
}

TEST_CASE("skip_step: a skipped step has no effect on later ones, with error feedback, passes and a helper") {
  const auto by_groups = kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::average);
  using scaled = std::remove_const_t<decltype(by_groups)>;
  const auto skips = [](auto& comm, auto op, const kolo::optimizer_options& o, float dropped) {
    const auto replicated = [&](auto& c, auto& parameters, const kolo::optimizer_options& options) {
      return kolo::distributed_optimizer{c, descent{}, parameters, op, options};
    };
    const auto sharded = [&](auto& c, auto& parameters, const kolo::optimizer_options& options) {
      return kolo::sharded_optimizer{c, kolo::update::sgd{.rate = 0.5}, parameters, op, options};
    };
    if (!skip_has_no_effect(comm, replicated, o, dropped)) return false;
    if constexpr (std::is_same_v<decltype(op), scaled>) return true;  // for an allreduce only
    else return skip_has_no_effect(comm, sharded, o, dropped);
  };
  on_ranks([&](auto& comm) {
    kolo::background exchange;
    std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
    bool all = true;
    for (kolo::background* const by : {static_cast<kolo::background*>(nullptr), &exchange})
      for (const int passes : {1, 3})
        for (const bool feedback : {false, true})
          for (const float dropped : {5.0f, INFINITY}) {
            const kolo::optimizer_options o{.passes = passes, .error_feedback = feedback, .helper = by};
            all &= skips(comm, kolo::wire<kolo::bfloat16>(kolo::average), o, dropped);
            all &= skips(comm, kolo::wire<kolo::float16>(kolo::sum), o, dropped);
            all &= skips(comm, by_groups, o, dropped);
          }
    return all;
  });
}

TEST_CASE("skip_step: if one rank skips alone, all ranks get a mismatch in the next exchange") {
  std::string words[2];
  kolo::threads::run(2, [&](auto& comm) {
    model mine{sizes};
    kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters()};
    mine.set_gradients(comm.rank(), 0), optimizer.synchronize();
    if (comm.rank() == 0) optimizer.step();
    else optimizer.skip_step();
    words[comm.rank()] = words_of([&] { optimizer.synchronize(); });
  });
  for (const auto& text : words) CHECK(contains(text, "root or optimizer"));
}

struct refuses_nan : descent {
  void step(std::size_t i, std::span<float> value, std::span<const float> gradient) {
    if (std::isnan(gradient[0])) throw std::runtime_error{"a gradient is NaN"};
    descent::step(i, value, gradient);
  }
};
TEST_CASE("a step in which the wrapped optimizer throws is over, and the next one exchanges its own gradients") {
  for (const int passes : {1, 2})
    on_ranks([&](auto& comm) {
      model mine{sizes}, reference{sizes};
      kolo::distributed_optimizer optimizer{comm, refuses_nan{}, mine.parameters(), {.passes = passes}};
      bool is_right = true;
      for (int step = 0; step < 3; ++step) {
        mine.set_gradients(comm.rank(), step);
        if (step == 1) mine.gradients[0][0] = std::numeric_limits<float>::quiet_NaN();
        bool has_thrown = false;
        for (int pass = 0; pass < passes; ++pass) try {
            is_right &= optimizer.step() == (pass + 1 == passes);
          } catch (const std::runtime_error&) {
            has_thrown = pass + 1 == passes;
          }
        is_right &= has_thrown == (step == 1);
        if (step == 1) continue;
        reference.set_sums(0, comm.size(), step, static_cast<float>(comm.size() * passes));
        step_alone(optimizer.inner(), reference);
      }
      return is_right && mine.values == reference.values;
    });
}

struct descent_that_may_throw {
  static constexpr std::size_t states = 0;
  bool* throws;  ///< the next call
  void operator()(std::span<float> value, std::span<const float> gradient, const std::array<std::span<float>, 0>&,
                  long) const {
    if (std::exchange(*throws, false)) throw std::runtime_error{"a rule that throws"};
    descent{}.step(0, value, gradient);
  }
};
TEST_CASE("functions of a class derived from an optimizer are not called by it, whatever their names") {
  using optimizer_type = kolo::distributed_optimizer<kolo::threads::communicator, descent, std::vector<parameter>&>;
  struct derived : optimizer_type {
    using optimizer_type::optimizer_type;
    void update() { ++calls; }
    void drop() { ++calls; }
    int calls = 0;
  };
  int calls[2]{1, 1};
  float updated[2]{};
  kolo::threads::run(2, [&](auto& comm) {
    std::vector<float> value{1}, gradient{1};
    std::vector parameters{parameter{value, gradient}};
    derived optimizer{comm, descent{}, parameters};
    optimizer.step();
    calls[comm.rank()] = optimizer.calls, updated[comm.rank()] = value[0];
  });
  CHECK((calls[0] == 0 && calls[1] == 0));
  CHECK((updated[0] == 0.5f && updated[1] == 0.5f));
}

TEST_CASE("if one rank's rule throws, all ranks have the same model, without the updates of that rank's slices") {
  for (const bool in_passing : {true, false})
    on_ranks([&](auto& comm) {
      model mine{sizes}, all{sizes}, but_one{sizes};
      auto parameters = mine.parameters();
      bool throws = false, is_right = true;
      kolo::sharded_optimizer optimizer{comm, descent_that_may_throw{&throws}, parameters, {.bucket_bytes = 64}};
      for (int step = 0; step < 3; ++step) {
        mine.set_gradients(comm.rank(), step);
        const bool must_throw = throws = step == 1 && comm.rank() == 0;
        if (!in_passing) optimizer.synchronize();
        try {
          optimizer.step();
          is_right &= !must_throw;
        } catch (const std::runtime_error&) {
          is_right &= must_throw;
        }
        descent alone;
        for (model* m : {&all, &but_one}) {
          m->set_sums(0, comm.size(), step, static_cast<float>(comm.size()));
          if (step != 1 || m == &all) step_alone(alone, *m);
        }
      }
      for (const auto& s : optimizer.slices())
        for (std::size_t i = s.first; i < s.first + s.count; ++i)
          is_right &= mine.values[s.parameter][i] == (comm.rank() == 0 ? but_one : all).values[s.parameter][i];
      const auto own = mine.values;
      for (auto& tensor : mine.values) kolo::broadcast(comm, tensor, 0);
      return is_right && mine.values == own;
    });
}

TEST_CASE("rows: duplicates are merged, many rows are sent densely, and the result is that of a dense exchange") {
  for (const double density : {1.0, 0.0})
    on_ranks([&](auto& comm) {
      const auto p = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
      std::vector<float> table(50 * 4), of_table(50 * 4), bias(3), of_bias(3, static_cast<float>(r)), expected(50 * 4);
      kolo::row_list rows{4, {10 + 2 * r, 7, r, 7}};
      for (const std::size_t row : rows.touched)
        for (std::size_t k = 0; k < 4; ++k) of_table[row * 4 + k] = static_cast<float>(12 * (row + k + r + 1));
      for (std::size_t s = 0; s < p; ++s)
        for (const std::size_t row : {10 + 2 * s, std::size_t{7}, s})
          for (std::size_t k = 0; k < 4; ++k)
            expected[row * 4 + k] += static_cast<float>(12 * (row + k + s + 1)) / static_cast<float>(p);
      std::vector<table_and_bias> parameters{{table, of_table, false, &rows}, {bias, of_bias}};
      kolo::distributed_optimizer optimizer{comm, descent{}, parameters, {.density = density}};
      optimizer.synchronize();
      return of_table == expected && rows.touched.size() == 1 + 2 * p && rows.touched[0] == 0 && rows.touched[p] == 7 &&
             of_bias[2] == static_cast<float>(p - 1) / 2 && optimizer.buckets().buckets.size() == 1;
    });
}

TEST_CASE("rows: sparse_allreduce alone; a row beyond the height is refused") {
  on_ranks([](auto& comm) {
    const auto p = static_cast<std::uint64_t>(comm.size()), r = static_cast<std::uint64_t>(comm.rank());
    kolo::sparse_rows<float> g{.height = 1000, .width = 2, .rows = {900, r, 900}, .values = {1, 2, 3, 4, 5, 6}};
    kolo::sparse_allreduce(comm, g, kolo::sum);
    bool right = g.rows.size() == p + 1 && g.rows.back() == 900 && g.values[2 * p] == 6 * static_cast<float>(p) &&
                 g.values[2 * r + 1] == 4;
    g.rows.back() = 1000;
    return right && contains(words_of([&] { kolo::sparse_allreduce(comm, g, kolo::sum); }), "rows below its height");
  });
}

TEST_CASE("rows: a sparse mean of 16-bit elements is rounded once, like a dense one") {
  for (const double density : {1.0, 0.0})
    on_ranks([&](auto& comm) {
      kolo::sparse_rows<kolo::float16> g{
          .height = 10, .width = 2, .rows = {3}, .values = std::vector(2, kolo::float16{40000.0f})};
      kolo::sparse_allreduce(comm, g, kolo::average, density);
      return g.rows == std::vector<std::uint64_t>{3} && static_cast<float>(g.values[1]) == 40000;
    });
}

TEST_CASE("rows: ranks with different widths or heights get an error, and no memory beyond their rows is written") {
  for (const double density : {1.0, 0.0})
    for (const bool of_width : {true, false}) {
      std::string all[2];
      kolo::threads::run(2, [&](auto& comm) {
        const std::size_t r = static_cast<std::size_t>(comm.rank()), width = of_width ? 1 + r : 2, height = 8 - 4 * r;
        kolo::sparse_rows<float> g{
            .height = height, .width = width, .rows = {height - 1}, .values = std::vector<float>(width, 1)};
        all[r] = words_of([&] { kolo::sparse_allreduce(comm, g, kolo::sum, density); });
      });
      for (const auto& words : all) CHECK(contains(words, "rows of other widths or heights"));
    }
  std::string all[2];
  kolo::threads::run(2, [&](auto& comm) {
    kolo::row_list rows{.width = comm.rank() == 0 ? std::size_t{1} : std::size_t{2}};
    std::vector<float> value(8), gradient(8);
    std::vector<table_and_bias> parameters{{value, gradient, false, &rows}};
    kolo::distributed_optimizer optimizer{comm, descent{}, parameters, {.density = 0}};
    rows.touched = {3};
    all[comm.rank()] = words_of([&] { optimizer.step(); });
  });
  for (const auto& words : all) CHECK(contains(words, "rows of other widths or heights"));
}

TEST_CASE("a local parameter is stepped with the rank's own gradient") {
  on_ranks([](auto& comm) {
    const auto own = static_cast<float>(comm.rank());
    std::vector<float> a(4), of_a(4, own), b(4), of_b(4, own);
    kolo::distributed_optimizer optimizer{comm, descent{1}, std::vector<table_and_bias>{{a, of_a, true}, {b, of_b}}};
    optimizer.step();
    return a[0] == -own && b[0] == -static_cast<float>(comm.size() - 1) / 2;
  });
}

TEST_CASE("passes: a local gradient, and one with rows, are means over the passes, too") {
  for (const double density : {0.0, 1.0})
    on_ranks([&](auto& comm) {
      const auto own = static_cast<float>(comm.rank() + 1);
      std::vector<float> a(4), of_a(4), b(4), of_b(4);
      kolo::row_list rows{1, {0, 1, 2, 3}};
      std::vector<table_and_bias> parameters{{a, of_a, true}, {b, of_b, false, &rows}};
      kolo::distributed_optimizer optimizer{
          comm, descent{1}, parameters, kolo::predivide(kolo::average, 8), {.passes = 2, .density = density}};
      for (const float pass : {1.0f, 2.0f}) {
        of_a.assign(4, pass * own), of_b.assign(4, pass * own);
        optimizer.step();
      }
      return a[0] == -own && b[0] == -static_cast<float>(comm.size() + 1) / 2;
    });
}

TEST_CASE("a gradient with rows, or a local one, that is zeroed between ready and step is refused") {
  for (const bool is_local : {false, true})
    on_ranks([&](auto& comm) {
      std::vector<float> a(4), of_a(4, 1), b(4), of_b(4, 1);
      kolo::row_list rows{1, {0, 1, 2, 3}};
      kolo::distributed_optimizer optimizer{
          comm, descent{1},
          std::vector<table_and_bias>{{a, of_a}, {b, of_b, is_local, is_local ? nullptr : &rows, "the table"}}};
      // Correct use, which another rank may have behind it and already be refused.
      const std::string before = words_of([&] { optimizer.ready(1), optimizer.ready(0), optimizer.step(); });
      const std::string why = words_of([&] {
        optimizer.ready(1), optimizer.ready(0);
        of_b.assign(4, 0);
        optimizer.step();
      });
      return (before == "" || contains(before, "refused its arguments")) &&
             (contains(why, "the table: the gradient was zeroed between the backward pass and the step") ||
              contains(why, "refused its arguments"));
    });
}

TEST_CASE("a parameter whose .local or .rows changes is refused, because it would be sent twice or never") {
  for (const bool was_local : {false, true})
    for (const bool had_rows : {false, true})
      for (const bool is_changed_local : {false, true}) {
        std::string first, second;
        kolo::threads::run(2, [&](auto& comm) {
          std::vector<float> value(8), gradient(8, 1);
          kolo::row_list rows{.width = 2};
          std::vector<table_and_bias> parameters{{value, gradient, was_local, had_rows ? &rows : nullptr}};
          kolo::distributed_optimizer optimizer{comm, descent{}, parameters};
          (comm.rank() == 0 ? first : second) = words_of([&] {
            optimizer.step();
            if (comm.rank() == 0 && is_changed_local) parameters[0].local = !was_local;
            if (comm.rank() == 0 && !is_changed_local) parameters[0].rows = had_rows ? nullptr : &rows;
            optimizer.step();
            kolo::barrier(comm);
          });
        });
        INFO(was_local << had_rows << is_changed_local << "\n" << first << "\n" << second);
        CHECK(contains(first, "a table changed its .local or .rows"));
        CHECK(contains(second, "rank 0: refused its arguments"));
      }
}

TEST_CASE("join: an average divides by all ranks, or by those that have data left") {
  for (const auto rule : {kolo::uneven::by_all, kolo::uneven::by_those_left}) {
    tally t;
    kolo::threads::run(3, [&](auto& comm) {
      model mine{sizes}, reference{sizes};
      kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), {.bucket_bytes = 64, .inputs = rule}};
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (int step = 0; step < 4 + comm.rank(); ++step) {
          for (std::size_t i = 0; i < 3; ++i) {
            mine.set_gradient(comm.rank(), step, i);
            if (epoch == 1) optimizer.ready(i);
          }
          optimizer.step();
        }
        t.expect(optimizer.join() == 2u - static_cast<unsigned>(comm.rank()));
        for (int step = 0; step < 6; ++step) {
          const int first = std::max(0, step - 3), left = 3 - first;
          reference.set_sums(first, left, step, static_cast<float>(rule == kolo::uneven::by_all ? 3 : left));
          step_alone(optimizer.inner(), reference);
        }
        t.expect(mine.values == reference.values);
      }
    });
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("join: a joined rank counts again, also after an exception between synchronize and step") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    std::vector<float> value(4), gradient(4, 1);
    const std::vector<parameter> parameters{{value, gradient}};
    kolo::distributed_optimizer optimizer{comm, descent{1}, parameters, {.inputs = kolo::uneven::by_those_left}};
    const auto between = [] { throw std::runtime_error{"all ranks judge this step broken"}; };
    try {
      if (comm.rank() == 0) optimizer.synchronize(), between();
      else optimizer.join(between);
    } catch (const std::runtime_error&) {
      optimizer.skip_step();
    }
    gradient.assign(4, static_cast<float>(comm.rank() + 1));
    optimizer.step();
    t.expect(value == std::vector<float>(4, -1.5f));
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("join: without parameters, or with local ones only") {
  for (const auto rule : {kolo::uneven::by_all, kolo::uneven::by_those_left})
    for (const std::size_t tensors : {0u, 1u})
      on_ranks([&](auto& comm) {
        std::vector<float> value(4), gradient(4);
        const std::vector<table_and_bias> parameters(tensors, {value, gradient, true});
        kolo::distributed_optimizer optimizer{comm, descent{1}, parameters, {.inputs = rule}};
        const auto own = static_cast<std::size_t>(comm.rank()), all = static_cast<std::size_t>(comm.size());
        for (std::size_t step = 0; step < 2 * own; ++step) gradient.assign(4, 1), optimizer.step();
        return optimizer.join() == 2 * (all - 1 - own) && value[0] == -2.0f * static_cast<float>(own * tensors);
      });
}

TEST_CASE("join: on a broken communicator each call throws, also after one that did not start its exchange") {
  kolo::threads::run(1, [&](auto& comm) {
    std::vector<float> value(4), gradient(4, 1);
    const std::vector<parameter> parameters{{value, gradient}};
    kolo::distributed_optimizer optimizer{comm, descent{1}, parameters, {.inputs = kolo::uneven::by_all}};
    CHECK(optimizer.join() == 0);
    comm.transport().fail(kolo::failure_from({}, kolo::errc::timeout, 0, {}, "too late"));
    for (int call = 0; call < 2; ++call) CHECK(contains(words_of([&] { optimizer.join(); }), "too late"));
  });
}

TEST_CASE("a rank with one batch fewer fails the others at once, whether it continues or leaves") {
  for (const bool goes_on : {true, false}) {
    std::string short_one, other;
    kolo::threads::run(2, [&](auto& comm) {
      model mine{sizes};
      kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters()};
      (comm.rank() == 0 ? short_one : other) = words_of([&] {
        for (int step = 0; step < 3 + comm.rank(); ++step) mine.set_gradients(comm.rank(), step), optimizer.step();
        if (comm.rank() == 1 || goes_on) kolo::barrier(comm);
      });
    });
    INFO(short_one << "\n" << other);
    CHECK(contains(other, goes_on ? "barrier" : "rank 0"));
    CHECK(short_one.empty() != goes_on);
  }
}

TEST_CASE("misuse throws an error, and the other rank gets it") {
  const auto step = [](auto& o, model&, auto&) { o.step(); };
  check_refusal("step without a backward pass: no gradient is ready", step);
  check_refusal("step before the end of the backward pass: parameter 0 is not ready",
                [](auto& o, model&, auto&) { o.ready(2), o.step(); });
  check_refusal("parameter 2 was ready twice", [](auto& o, model&, auto&) { o.ready(2), o.ready(2); });
  check_refusal("there is no parameter 3", [](auto& o, model&, auto&) { o.ready(3); });
  check_refusal("zero_gradients was called between", [](auto& o, model&, auto&) { o.ready(2), o.zero_gradients(); });
  check_refusal("parameter 0: the gradient was zeroed between the backward pass and the step",
                [](auto& o, model& m, auto&) {
                  o.ready(0), o.ready(1);
                  std::fill(m.gradients[0].begin(), m.gradients[0].end(), 0.0f);
                  o.ready(2);
                  o.step();
                });
  check_refusal("parameter 1 changed its shape: from 300 values to 299", [](auto& o, model&, auto& p) {
    p[1].value = p[1].value.first(299);
    o.ready(1);
  });
  check_refusal("parameter 1 lies elsewhere", [](auto& o, model& m, auto& p) {
    std::vector<float> moved(300);
    p[1].gradient = moved;
    for (std::size_t i : {2u, 0u}) m.set_gradient(0, 1, i), o.ready(i);
    o.ready(1);
  });
  check_refusal("more or fewer parameters", [](auto&, model&, auto& parameters) { parameters.pop_back(); });
  check_refusal("more or fewer parameters",
                [](auto&, model&, auto& parameters) { parameters.push_back(parameters.back()); });
  check_refusal("join needs to be asked for", [](auto& o, model&, auto&) { o.join(); });
  check_refusal("skip_step comes after synchronize", [](auto& o, model&, auto&) { o.ready(2), o.skip_step(); });
}

TEST_CASE("passes: calls that would end a step before its last pass are refused") {
  const kolo::optimizer_options three{.passes = 3, .inputs = kolo::uneven::by_all};  // one pass precedes the mistake
  check_refusal(
      "synchronize comes after the last of options.passes", [](auto& o, model&, auto&) { o.synchronize(); }, three);
  check_refusal(
      "zero_gradients was called between", [](auto& o, model&, auto&) { o.zero_gradients(); }, three);
  check_refusal(
      "skip_step comes after synchronize", [](auto& o, model&, auto&) { o.skip_step(); }, three);
  const char* const not_now = "join was called in the middle of a backward pass, or before the step";
  check_refusal(
      not_now, [](auto& o, model&, auto&) { o.join(); }, three);
  check_refusal(not_now,
                [](auto& o, model& m, auto&) {
                  for (std::size_t i = 0; i < 3; ++i) m.set_gradient(0, 1, i), o.ready(i);
                  o.synchronize(), o.join();
                },
                {.inputs = kolo::uneven::by_all});
}

TEST_CASE("passes: ready in the last pass of a step only is refused, in the first step and in later ones") {
  kolo::threads::run(1, [&](auto& comm) {
    model mine{sizes};
    kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), {.passes = 2}};
    const auto pass = [&] {
      for (std::size_t i = 0; i < 3; ++i) mine.set_gradient(0, 0, i), optimizer.ready(i);
      return optimizer.step();
    };
    CHECK(!optimizer.step());
    CHECK(contains(words_of([&] { optimizer.ready(2); }),
                   "none was in an earlier backward pass of this step: call ready"));
    CHECK(optimizer.step());
    CHECK((!pass() && pass()));
    CHECK(
        contains(words_of([&] { optimizer.step(); }), "no gradient is ready at the end of a pass: call ready in each"));
    CHECK((!pass() && pass()));
  });
}

TEST_CASE("ranks with different options, or different rows, get an error at once") {
  const auto differ = [](auto options_of, auto... op_of) {
    std::string all[2];
    kolo::threads::run(2, [&](auto& comm) {
      model mine{sizes};
      const int r = comm.rank();
      all[r] = words_of([&] {
        kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), op_of(r)..., options_of(r)};
      });
    });
    for (const auto& words : all) CHECK(contains(words, "ranks plan different buckets"));
  };
  differ([](int r) { return kolo::optimizer_options{.passes = 1 + r}; });
  differ([](int r) { return kolo::optimizer_options{.passes = 1 + r}; }, [](int) { return kolo::sum; });
  differ([](int) { return kolo::optimizer_options{}; },
         [](int r) { return kolo::predivide(kolo::average, r == 0 ? 4.0f : 8.0f); });
  differ([](int r) { return kolo::optimizer_options{.leaves = 4 << r}; });
  differ([](int r) { return kolo::optimizer_options{.density = r == 0 ? 0.25 : 0.5}; });
  differ(
      [](int r) { return kolo::optimizer_options{.inputs = r == 0 ? kolo::uneven::by_all : kolo::uneven::refused}; });
  std::string all[2];
  kolo::threads::run(2, [&](auto& comm) {
    const std::size_t rows = comm.rank() == 0 ? 10 : 9;
    std::vector<float> value(3 * rows), gradient(3 * rows);
    kolo::row_list touched{.width = 3};
    std::vector<table_and_bias> parameters{{value, gradient, false, &touched}};
    all[comm.rank()] = words_of([&] { kolo::distributed_optimizer optimizer{comm, descent{}, parameters}; });
  });
  for (const auto& words : all) CHECK(contains(words, "ranks plan different buckets"));
}

TEST_CASE("an argument that one rank's constructor refuses is an error on the other ranks at once") {
  const auto check = [](const char* expected, const kolo::optimizer_options& o, std::size_t gradients = 5) {
    std::string first, second;
    kolo::threads::run(2, [&](auto& comm) {
      const bool is_wrong = comm.rank() == 0;
      std::vector<float> value(5), gradient(5);
      std::vector<parameter> parameters{{value, std::span{gradient}.first(is_wrong ? gradients : 5)}};
      (is_wrong ? first : second) = words_of([&] {
        kolo::distributed_optimizer{comm, descent{}, parameters, is_wrong ? o : kolo::optimizer_options{}};
      });
      kolo::barrier(comm);  // the communicator remains usable
    });
    CHECK(contains(first, expected));
    CHECK(contains(second, "ranks plan different buckets"));
  };
  check("parameter 0 has 5 values, but a gradient of 4", {}, 4);
  check("takes at least one backward pass", {.passes = 0});
  check("this operator has no wire type", {.error_feedback = true});
  check("not less than the number of ranks: 3 leaves, 2 ranks", {.leaves = 3});
  check("group 0 names parameter 7", {.groups = {{7}}});
}

TEST_CASE("gradients may be zero, on some ranks or on all, in any step") {
  for (const bool says_ready : {false, true})
    for (const bool of_all : {false, true})
      on_ranks([&](auto& comm) {
        model mine{sizes}, reference{sizes};
        kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters()};
        for (int step = 0; step < 3; ++step) {
          optimizer.zero_gradients();
          const int first = step != 1 ? 0 : of_all ? comm.size() : 1;  // the ranks below it have zero loss
          for (std::size_t t = 0; t < sizes.size(); ++t)
            for (std::size_t i = 0; i < sizes[t]; ++i)
              mine.gradients[t][i] += comm.rank() >= first ? model::at(comm.rank(), step, t, i) : 0.0f;
          for (std::size_t t = 0; t < sizes.size() && says_ready; ++t) optimizer.ready(t);
          optimizer.step();
          reference.set_sums(first, comm.size() - first, step, static_cast<float>(comm.size()));
          step_alone(optimizer.inner(), reference);
        }
        return mine.values == reference.values;
      });
}

TEST_CASE("gradients that are zeroed between their exchange and the step are refused") {
  const auto why = words_of([&] {
    kolo::threads::run(2, [&](auto& comm) {
      model mine{sizes};
      kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters()};
      mine.set_gradients(comm.rank(), 0), optimizer.synchronize(), optimizer.zero_gradients();
      optimizer.step();
    });
  });
  CHECK(contains(why, "the gradients were zeroed between their exchange and the step"));
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// outer_optimizer: bit for bit against a reference on one rank; when it sends what; failures; resuming; refused arguments.
#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/observe/counted.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/outer_optimizer.hpp>
#include <kolo/train/state.hpp>
#include <kolo/view/bfloat16.hpp>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/message_threads.hpp"
#include "support/scratch.hpp"
#include "train/model.hpp"

#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace testing;

namespace {

const std::vector<std::size_t> sizes{5, 300, 0, 41};
constexpr kolo::update::nesterov rule{.rate = 0.5, .momentum = 0.5};

/// A local step of one rank, in integers, so that sums are exact.
void learn(model& m, int rank, long step) {
  for (std::size_t t = 0; t < m.values.size(); ++t)
    for (std::size_t i = 0; i < m.values[t].size(); ++i)
      m.values[t][i] -= model::at(rank, static_cast<int>(step), t, i);
}

/// The reference: the values of all ranks, computed element by element without the library.
struct reference {
  reference(int p, kolo::outer_options o) : options{o}, ranks(static_cast<std::size_t>(p), model{sizes}) {
    for (const auto& tensor : ranks[0].values) outer.insert(outer.end(), tensor.begin(), tensor.end());
    velocity.resize(outer.size()), mean.resize(outer.size());
  }
  static float& at(model& m, std::size_t i) {
    std::size_t t = 0;
    while (i >= m.values[t].size()) i -= m.values[t++].size();
    return m.values[t][i];
  }
  void step() {
    ++steps;
    for (std::size_t r = 0; r < ranks.size(); ++r) learn(ranks[r], static_cast<int>(r), steps);
    for (int f = 0; f < options.fragments; ++f) {
      const kolo::extent own = kolo::block(outer.size(), options.fragments, f);
      const long before = steps - options.delay;
      for (std::size_t i = own.first; i < own.first + own.count; ++i) {
        if (steps % options.every == phase(f)) begin(i);
        if (before > 0 && before % options.every == phase(f)) arrive(i, static_cast<float>(options.blend));
      }
    }
  }
  void finish() {
    for (int f = 0; f < options.fragments; ++f) {
      const kolo::extent own = kolo::block(outer.size(), options.fragments, f);
      const long since = (steps + options.every - phase(f)) % options.every;  // the last exchange began
      const bool is_in_flight = since < options.delay && since < steps;
      for (std::size_t i = own.first; i < own.first + own.count; ++i) {
        if (is_in_flight) arrive(i, since > 0 ? static_cast<float>(options.blend) : 0);
        if (since > 0) begin(i), arrive(i, 0);
        merge(i, 0);
      }
    }
  }

 private:
  int phase(int f) const { return options.every * (f + 1) / options.fragments % options.every; }
  void begin(std::size_t i) {
    mean[i] = 0;
    for (model& m : ranks) mean[i] += outer[i] - at(m, i);
    mean[i] /= static_cast<float>(ranks.size());
  }
  void arrive(std::size_t i, float blend) {
    velocity[i] = 0.5f * velocity[i] + mean[i];
    outer[i] -= 0.5f * (mean[i] + 0.5f * velocity[i]);
    merge(i, blend);
  }
  void merge(std::size_t i, float b) {
    for (model& m : ranks) at(m, i) = b == 0 ? outer[i] : b * at(m, i) + (1 - b) * outer[i];
  }

 public:
  kolo::outer_options options;
  std::vector<model> ranks;
  std::vector<float> outer{}, velocity{}, mean{};
  long steps = 0;
};

template <class Outer>
std::vector<std::byte> state_of(Outer& outer) {
  kolo::detail::train::byte_writer w;
  outer.serialise(w);
  return w.bytes;
}
/// Whether all ranks have the same state, bit for bit.
template <class Comm, class Outer>
bool is_one_state(Comm& comm, Outer& outer) {
  const auto mine = state_of(outer);
  std::vector<std::uint8_t> own(mine.size()), all(own.size() * static_cast<std::size_t>(comm.size()));
  std::memcpy(own.data(), mine.data(), mine.size());
  kolo::allgather(comm, own, all);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != own[i % own.size()]) return false;
  return true;
}

const kolo::outer_options kinds[] = {{.every = 4},
                                     {.every = 2, .blend = 0.5},
                                     {.every = 6, .fragments = 3},
                                     {.every = 5, .fragments = 2, .delay = 2},
                                     {.every = 4, .fragments = 4, .delay = 3, .blend = 0.5}};

}  // namespace

TEST_CASE("outer_optimizer: rate 1 without momentum averages the parameters, also after a skipped local step") {
  for (const int p : {1, 2, 3, 4}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) {
      const auto averages = [&](auto op) {
        model mine{sizes}, averaged{sizes};
        kolo::outer_optimizer outer{comm, kolo::update::nesterov{.rate = 1, .momentum = 0}, mine.parameters(), op};
        for (long step = 1; step <= 3; ++step) {
          if (step != 2 || comm.rank() > 0) learn(mine, comm.rank(), step), learn(averaged, comm.rank(), step);
          for (auto& tensor : averaged.values) kolo::allreduce(comm, tensor, kolo::average);
          t.expect(outer.step() && mine.values == averaged.values);
        }
      };
      averages(kolo::average), averages(kolo::predivide(kolo::average, 4));
    });
    INFO(p << " ranks");
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("outer_optimizer: the rule gets the number of the round, from 1") {
  kolo::threads::run(1, [](auto& comm) {
    model mine{{1}};
    kolo::outer_optimizer outer{comm, counting{}, mine.parameters(), {.every = 3}};
    for (int step = 1; step <= 6; ++step) {
      CHECK(outer.step() == (step % 3 == 0));
      CHECK(mine.values[0][0] == static_cast<float>(step / 3));
    }
  });
}

TEST_CASE("outer_optimizer: finish in the middle of a round exchanges the steps made in it") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    model mine{sizes}, averaged{sizes};
    kolo::outer_optimizer outer{
        comm, kolo::update::nesterov{.rate = 1, .momentum = 0}, mine.parameters(), {.every = 3}};
    for (long step = 1; step <= 2; ++step)
      learn(mine, comm.rank(), step), learn(averaged, comm.rank(), step), t.expect(!outer.step());
    outer.finish();
    for (auto& tensor : averaged.values) kolo::allreduce(comm, tensor, kolo::average);
    t.expect(mine.values == averaged.values);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("outer_optimizer: each step has the bits of a reference, and all ranks have the same outer state") {
  for (const auto& o : kinds)
    for (const int p : {1, 2, 3, 4}) {
      tally t;
      kolo::threads::run(p, [&](auto& comm) {
        reference expected{p, o};
        model mine{sizes};
        kolo::outer_optimizer outer{comm, rule, mine.parameters(), o};
        for (long step = 1; step <= 2 * o.every + o.delay; ++step) {
          learn(mine, comm.rank(), step);
          outer.step(), expected.step();
          t.expect(mine.values == expected.ranks[static_cast<std::size_t>(comm.rank())].values);
        }
        t.expect(outer.steps() == 2 * o.every + o.delay && is_one_state(comm, outer));
        outer.finish(), expected.finish();
        t.expect(mine.values == expected.ranks[0].values && mine.values == expected.ranks.back().values);
        outer.finish();
        t.expect(mine.values == expected.ranks[0].values);
      });
      INFO(p << " ranks, every " << o.every << ", fragments " << o.fragments << ", delay " << o.delay);
      CHECK(t.wrong == 0);
    }
}

TEST_CASE("outer_optimizer: all ranks have one state with rounded sums, a narrow wire, a helper, and over messages") {
  const auto trains = [](auto& comm, kolo::background* helper) {
    model mine{sizes};
    std::vector<float> local(3, static_cast<float>(comm.rank()));
    std::vector<double> doubles(20), none(20);
    struct wide {
      std::span<double> value, gradient;
      bool local = false;
    };
    std::vector<wide> wides{{doubles, none}, {std::span{none}.first(3), std::span{none}.last(3), true}};
    auto floats = mine.parameters();
    kolo::outer_optimizer outer{comm,
                                rule,
                                kolo::mixed_parameters{floats, wides},
                                kolo::wire<kolo::bfloat16>(kolo::average),
                                {.every = 4, .fragments = 4, .delay = 2, .blend = 0.25, .helper = helper}};
    bool good = true;
    for (long step = 1; step <= 11; ++step) {
      for (auto& tensor : mine.values)
        for (float& x : tensor) x = x * 0.9f + 1.0f / static_cast<float>(3 + step + comm.rank());
      for (double& x : doubles) x += 1.0 / (7 + comm.rank());
      none[0] = comm.rank();
      outer.step();
    }
    good &= is_one_state(comm, outer);
    outer.finish();
    good &= is_one_state(comm, outer) && none[0] == comm.rank() && doubles[0] > 0.1 && doubles[19] > 0.1;
    return good;
  };
  tally t;
  for (const int p : {2, 3, 4})
    kolo::threads::run(p, [&](auto& comm) {
      t.expect(trains(comm, nullptr));
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      t.expect(trains(comm, &exchange));
    });
  run_message_threads(3, [&](auto& comm) { t.expect(trains(comm, nullptr)); });
  CHECK(t.wrong == 0);
}

TEST_CASE("outer_optimizer: fragments are sent at different steps, and have 1/every of the bytes of gradients") {
  using transport = kolo::counted<message_transport>;
  constexpr int p = 4;
  constexpr std::uint64_t bytes = 96 * sizeof(float), at_once = 2 * (p - 1) * bytes / p;  // of a ring over all elements
  tally t;
  run_threads_over<transport>(p, [&](auto& comm) {
    model mine{{90, 6}};
    const auto sent = [&] { return comm.transport().total().bytes_sent; };
    kolo::distributed_optimizer synchronous{comm, descent{}, mine.parameters(), kolo::ring{}};
    kolo::outer_optimizer outer{comm, rule, mine.parameters(), kolo::ring{}, {.every = 6, .fragments = 3, .delay = 1}};
    std::uint64_t before = sent();
    for (int step = 1; step <= 12; ++step) {
      outer.step();
      if (step % 2 == 1) t.expect(sent() - before == (step == 1 ? 0 : at_once / 3)), before = sent();
    }
    outer.step();
    const std::uint64_t of_outer = at_once / 3 * 6;
    t.expect(sent() - before == at_once / 3);
    before = sent();
    for (int step = 1; step <= 12; ++step) mine.set_gradients(comm.rank(), step), synchronous.step();
    t.expect(of_outer * 6 == sent() - before);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("outer_optimizer: a killed rank is named by the others, with a helper and without") {
  const auto trains = [](auto& comm, kolo::background* helper) {
    model mine{sizes};
    kolo::outer_optimizer outer{
        comm, rule, mine.parameters(), {.every = 3, .fragments = 3, .delay = 2, .helper = helper}};
    for (long step = 1; step <= 9; ++step) {
      if (comm.rank() == 1 && step == 4) ::raise(SIGKILL);
      outer.step();
    }
  };
  const auto end = on_processes(3, [&](auto& comm) { return end_of([&] { trains(comm, nullptr); }); });
  const auto helped = on_processes(3, [&](auto& comm) {
    kolo::background exchange;
    std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
    return end_of([&] { trains(comm, &exchange); });
  });
  for (const auto& how : {end, helped}) {
    INFO(how.said[0] << "; " << how.said[2]);
    CHECK(how.said == all_but(1, 3, how.said[0]));
    CHECK(contains(how.said[0], " 1"));
    CHECK(how.clean);
  }
}

TEST_CASE("outer_optimizer: a checkpoint resumes with the same bits, also while fragments are in flight") {
  const scratch_directory directory;
  tally t;
  for (const auto& o : kinds)
    kolo::threads::run(3, [&](auto& comm) {
      const std::string path = directory / ("rank" + std::to_string(comm.rank())), state = path + ".state";
      model mine{sizes}, other{sizes};
      kolo::outer_optimizer outer{comm, rule, mine.parameters(), o};
      kolo::outer_optimizer later{comm, rule, other.parameters(), o};
      const auto go_on = [&](auto& optimizer, model& m) {
        for (long step = o.every + 2; step <= 3 * o.every; ++step) learn(m, comm.rank(), step), optimizer.step();
      };
      for (long step = 1; step <= o.every + 1; ++step) learn(mine, comm.rank(), step), outer.step();
      kolo::save_checkpoint(path, mine.parameters()), kolo::save_state(state, outer);
      go_on(outer, mine);
      kolo::load_checkpoint(path, other.parameters()), kolo::load_state(state, later);
      t.expect(later.steps() == o.every + 1);
      go_on(later, other);
      t.expect(mine.values == other.values && state_of(outer) == state_of(later));

      model fresh{sizes};
      kolo::outer_optimizer third{comm, rule, fresh.parameters(), {.every = 4, .fragments = 2, .delay = 1}};
      const bool fits = o.fragments == 2;
      t.expect(contains(words_of([&] { kolo::load_state(state, third); }), "of other parameters or fragments") != fits);
      t.expect(contains(words_of([&] { kolo::load_state(state, third, outer); }), "ranks serialise") == fits);
      t.expect(contains(words_of([&] { kolo::load_state(path + ".none", third); }), "No such file"));
    });
  CHECK(t.wrong == 0);
}

TEST_CASE("outer_optimizer: ranks that resume from states of different steps get an error at the next exchange") {
  for (const bool is_checked : {false, true}) {
    std::vector<std::string> all(2);
    kolo::threads::run(2,
                       [&](auto& comm) {
                         model mine{sizes};
                         kolo::outer_optimizer outer{comm, rule, mine.parameters(), {.every = 4}};
                         std::vector<std::byte> states[2];
                         for (int step = 1; step <= 8; ++step) outer.step(), states[step / 8] = state_of(outer);
                         kolo::detail::train::byte_reader reader{states[comm.rank()]};
                         outer.serialise(reader);
                         all[static_cast<std::size_t>(comm.rank())] = words_of([&] {
                           for (int step = 1; step <= 4; ++step) outer.step();
                         });
                       },
                       {.checked = is_checked});
    for (const auto& words : all) {
      INFO(words);
      CHECK(contains(words, "optimizer"));
    }
  }
}

struct counts_and_throws {
  static constexpr std::size_t states = 0;
  int* floats;
  const bool* throws;
  template <class T>
  void operator()(std::span<T>, std::span<const T>, const std::array<std::span<T>, 0>&, long) const {
    if (std::is_same_v<T, double> && *throws) throw std::runtime_error{"a rule that throws"};
    *floats += std::is_same_v<T, float>;
  }
};
TEST_CASE("outer_optimizer: if the rule throws, elements already updated are not updated again") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    std::vector<double> doubles(20), none(20);
    struct wide {
      std::span<double> value, gradient;
    };
    std::vector<wide> wides{{doubles, none}};
    model mine{{9}};
    auto floats = mine.parameters();
    int updates = 0;
    bool throws = false;
    kolo::outer_optimizer outer{
        comm, counts_and_throws{&updates, &throws}, kolo::mixed_parameters{floats, wides}, {.every = 1}};
    for (int step = 1; step <= 3; ++step) {
      throws = step == 2;
      try {
        outer.step();
        t.expect(!throws);
      } catch (const std::runtime_error&) {
        t.expect(throws);
      }
      t.expect(updates == step);
    }
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("outer_optimizer: if the rule throws on one rank, the others fail and do not continue with other values") {
  for (const int thrower : {0, 1, 2}) {
    std::string why[3];
    kolo::threads::run(3, [&](auto& comm) {
      int updates = 0;
      std::vector<double> doubles(20), none(20);
      struct wide {
        std::span<double> value, gradient;
      };
      bool throws = comm.rank() == thrower;
      kolo::outer_optimizer outer{
          comm, counts_and_throws{&updates, &throws}, std::vector<wide>{{doubles, none}}, {.every = 1}};
      for (int step = 0; step < 3; ++step) try {
          outer.step();
        } catch (const std::exception& e) {  // and continues
          if (std::string& first = why[comm.rank()]; first.empty()) first = e.what();
        }
    });
    for (const int rank : {0, 1, 2})
      CHECK(contains(why[rank], rank == thrower ? "a rule that throws" : "or optimizer, now or in a call before"));
  }
}

TEST_CASE("outer_optimizer: if the rule throws on one rank, all ranks resume from a state before") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    int updates = 0;
    bool throws = comm.rank() == 0;
    std::vector<double> doubles(20), none(20);
    struct wide {
      std::span<double> value, gradient;
    };
    kolo::outer_optimizer outer{comm, counts_and_throws{&updates, &throws}, std::vector<wide>{{doubles, none}}};
    const auto state = state_of(outer);
    try {
      outer.step();
    } catch (const std::runtime_error&) {
    }
    throws = false;
    kolo::detail::train::byte_reader reader{state};
    outer.serialise(reader);
    t.expect(words_of([&] { outer.step(); }).empty());
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("outer_optimizer: after an exchange that could not start, `finish` throws and does not merge") {
  for (const int exchanged : {0, 1})
    kolo::threads::run(1, [&](auto& comm) {
      model mine{sizes};
      kolo::outer_optimizer outer{comm, rule, mine.parameters(), {.every = 1}};
      for (int step = 0; step < exchanged; ++step) outer.step();
      for (auto& tensor : mine.values) std::fill(tensor.begin(), tensor.end(), 7.0f);
      const auto wanted = mine.values;
      comm.transport().fail(kolo::failure_from({}, kolo::errc::timeout, 0, {}, "too late"));
      CHECK(contains(words_of([&] { outer.step(); }), "too late"));
      CHECK(contains(words_of([&] { outer.finish(); }), "too late"));
      CHECK((mine.values == wanted));
    });
}

TEST_CASE("outer_optimizer: a helper that has another's exchange is refused, and no step is counted") {
  tally t;
  for (const int p : {1, 2})
    kolo::threads::run(p, [&](auto& comm) {
      kolo::background exchange;
      std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
      model mine{sizes}, gradients{sizes};
      kolo::outer_optimizer outer{comm, rule, mine.parameters(), {.every = 2, .delay = 1, .helper = &exchange}};
      kolo::distributed_optimizer inner{comm, descent{}, gradients.parameters(), {.helper = &exchange}};
      const auto steps_inner = [&] {
        for (std::size_t i = 0; i < sizes.size(); ++i) inner.ready(i);
        return inner.step();
      };
      t.expect(!outer.step());
      inner.ready(0);
      t.expect(contains(words_of([&] { outer.step(); }), "has the exchange of another optimizer") &&
               outer.steps() == 1);
      for (std::size_t i = 1; i < sizes.size(); ++i) inner.ready(i);
      t.expect(inner.step() && !outer.step());
      t.expect(contains(words_of([&] { steps_inner(); }), "has the exchange of another optimizer"));
      t.expect(outer.step() && steps_inner());
    });
  CHECK(t.wrong == 0);
}

/// In an update, another thread's optimizer takes the helper.
struct rule_that_lends : kolo::update::nesterov {
  kolo::background* exchange;
  void operator()(auto value, auto gradient, const auto& state, long step) const {
    exchange->lend([](void*) {}, nullptr);
    kolo::update::nesterov::operator()(value, gradient, state, step);
  }
};
TEST_CASE("outer_optimizer: without a helper that another thread's optimizer takes during a step, the step is right") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    kolo::background exchange;
    std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
    model mine{{40}};
    kolo::outer_optimizer outer{comm,
                                rule_that_lends{rule, &exchange},
                                mine.parameters(),
                                {.every = 2, .fragments = 2, .delay = 1, .helper = &exchange}};
    t.expect(!outer.step());
    for (int step = 2; step < 4; ++step) {
      t.expect(outer.step());
      exchange.take_back(std::chrono::minutes{1});
    }
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("outer_optimizer: invalid options, and options or values that differ between ranks, are refused") {
  const auto why = [](int p, auto options_of, bool other_values = false) {
    std::vector<std::string> all(static_cast<std::size_t>(p));
    kolo::threads::run(p, [&](auto& comm) {
      model mine{sizes};
      if (other_values && comm.rank() == p - 1) mine.values[1][299] += 1;
      all[static_cast<std::size_t>(comm.rank())] = words_of([&] {
        kolo::outer_optimizer{comm, rule, mine.parameters(), options_of(comm.rank())};
      });
    });
    for (const auto& words : all) CHECK(words == all[0]);
    return all[0];
  };
  const kolo::outer_options wrong[] = {{.every = 0},
                                       {.fragments = 0},
                                       {.every = 3, .fragments = 4},
                                       {.every = 3, .delay = -1},
                                       {.every = 3, .delay = 3}};
  for (const auto& o : wrong) CHECK(contains(why(1, [&](int) { return o; }), "takes 1 <= fragments <= every"));
  for (const double b : {-0.5, 1.0, std::numeric_limits<double>::quiet_NaN()})
    CHECK(contains(why(1, [&](int) { return kolo::outer_options{.blend = b}; }), "options.blend is at least 0"));
  model mine{{9}};
  const std::vector<parameter> twice(2, mine.parameters()[0]);
  kolo::threads::run(1, [&](auto& comm) {
    CHECK(contains(words_of([&] { kolo::outer_optimizer{comm, rule, twice}; }), "share elements"));
  });
  for (const int rank : {0, 1, 2}) {
    const auto differs = [&](auto change) {
      return why(3, [&](int r) {
        kolo::outer_options o{.every = 8, .fragments = 2, .delay = 1, .blend = 0.5};
        if (r == rank) change(o);
        return o;
      });
    };
    CHECK(contains(differs([](auto& o) { o.every = 9; }), "ranks differ in"));
    CHECK(contains(differs([](auto& o) { o.delay = 2; }), "ranks differ in"));
    CHECK(contains(differs([](auto& o) { o.blend = 0; }), "ranks differ in"));
    CHECK(differs([](auto&) {}).empty());
  }
  std::string other;
  kolo::threads::run(2, [&](auto& comm) {
    const auto words = words_of([&] { kolo::outer_optimizer{comm, rule, mine.parameters(), {.every = comm.rank()}}; });
    if (comm.rank() == 1) other = words;
    kolo::barrier(comm);  // the communicator remains usable
  });
  CHECK(contains(other, "ranks differ in"));
  CHECK(contains(why(
                     3, [](int) { return kolo::outer_options{}; }, true),
                 "broadcast_parameters comes before"));
}

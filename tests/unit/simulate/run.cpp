// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulated time is that of the closed formulas, and follows the model where there is none.
#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/sanitized.hpp"
#include "unit/schedule/list.hpp"

#include <kolo/simulate/run.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

using namespace kolo;

namespace {

// latency, overhead, gap, seconds_per_byte, seconds_per_byte_reduced
constexpr simulate::network net{3e-6, 1e-6, 2e-6, 1e-9, 4e-10}, only_port{3e-6, 0, 0, 1e-9, 0};
const double alpha = net.alpha(), beta = net.seconds_per_byte, gamma_ = net.seconds_per_byte_reduced;

/// n bytes in p equal blocks.
std::size_t bytes_for(int p) { return static_cast<std::size_t>(p) * 1000; }

/// A broadcast whose root sends nothing.
struct mute {
  static constexpr auto collective = kind::broadcast;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  static constexpr step at(int r, int, int) { return r == 0 ? step{} : step{transfer{.from = 0, .receive = {0, 1}}}; }
};

/// Each rank exchanges a block with the rank half way around.
struct across {
  static constexpr auto collective = kind::barrier;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  static constexpr step at(int r, int p, int) {
    const int other = mod(r + p / 2, p);
    return transfer{.to = other, .send = {0, 1}, .from = other, .receive = {0, 1}};
  }
};

void check(double simulated, double formula) { CHECK(simulated == Approx(formula).epsilon(1e-9)); }

}  // namespace

TEST_CASE("the time of the ring is its formula") {
  for (const int p : {2, 3, 4, 7, 16, 61, 128}) {
    const double n = static_cast<double>(bytes_for(p)), most = n * (p - 1) / p;
    INFO(p << " ranks");
    check(simulate::run(ring::allreduce{}, p, bytes_for(p), net),
          2 * (p - 1) * alpha + 2 * most * beta + most * gamma_);
    check(simulate::run(ring::reduce_scatter{}, p, bytes_for(p), net), (p - 1) * alpha + most * beta + most * gamma_);
    check(simulate::run(ring::allgather{}, p, bytes_for(p), net), (p - 1) * alpha + most * beta);
  }
}

TEST_CASE("the time of recursive doubling is its formula, which is an upper limit for a fold") {
  for (const int p : {2, 3, 4, 5, 8, 12, 16, 17, 63, 64, 100}) {
    const double n = static_cast<double>(bytes_for(p)), lg = ceil_log2(floor_power_of_two(p));
    const double core = lg * (alpha + n * beta + n * gamma_), folding = 2 * alpha + 2 * n * beta + n * gamma_;
    const double simulated = simulate::run(recursive_doubling::allreduce{}, p, bytes_for(p), net);
    INFO(p << " ranks");
    if (floor_power_of_two(p) == p) check(simulated, core);
    else if (p == 63 || p == 100) check(simulated, core + folding);  // some chain of messages stays within the pairs
    else
      CHECK((simulated > core &&
             simulated <= (core + folding) * (1 + 1e-9)));  // a rank without a pair has sent its part already
  }
}

TEST_CASE("the time of the circulant graph is its formula") {
  for (const int p : {2, 3, 5, 8, 13, 16, 33}) {
    const double n = static_cast<double>(bytes_for(p)), most = n * (p - 1) / p;
    INFO(p << " ranks");
    check(simulate::run(circulant::allreduce{}, p, bytes_for(p), net),
          2 * ceil_log2(p) * alpha + 2 * most * beta + most * gamma_);
  }
}

TEST_CASE("the time of the binomial tree is at most its formula, and the formula if the tree is full") {
  for (int p = 2; p <= (testing::is_sanitized ? 40 : 130); ++p) {
    const double n = static_cast<double>(bytes_for(p)), q = ceil_log2(p);
    const double down = simulate::run(binomial::broadcast{}, p, bytes_for(p), net), limit = q * (alpha + n * beta);
    INFO(p << " ranks");
    if (floor_power_of_two(p) == p) {
      check(down, limit);
      check(simulate::run(binomial::reduce{}, p, bytes_for(p), net), q * (alpha + n * beta + n * gamma_));
    } else {
      CHECK(down <= limit * (1 + 1e-9));
      CHECK(down >= alpha + n * beta);
    }
  }
}

TEST_CASE("a chain never waits: after the first segment, one arrives each time a port is free") {
  for (const int p : {2, 3, 9})
    for (const int segments : {1, 4, 64}) {
      const double m = 1000;
      const auto bytes = static_cast<std::size_t>(m * segments);
      const chain::broadcast schedule{{.segments = segments}};
      check(simulate::run(schedule, p, bytes, only_port), (p - 1) * (3e-6 + m * 1e-9) + (segments - 1) * m * 1e-9);
    }
}

TEST_CASE("a rank has one port, which takes one message at a time") {
  for (const int p : {2, 5, 16}) {
    const double n = static_cast<double>(bytes_for(p));
    INFO(p << " ranks");
    check(simulate::run(one_shot::allreduce{}, p, bytes_for(p), only_port), 3e-6 + (p - 1) * n * 1e-9);
    check(simulate::run(one_shot::gather{}, p, bytes_for(p), only_port), 3e-6 + (p - 1) * n / p * 1e-9);
    check(simulate::run(one_shot::scatter{}, p, bytes_for(p), only_port), 3e-6 + (p - 1) * n / p * 1e-9);
    check(simulate::run(two_shot::allreduce{}, p, bytes_for(p), only_port), 2 * 3e-6 + 2 * (p - 1) * n / p * 1e-9);
    check(simulate::run(one_shot::alltoall{}, p, bytes_for(p), only_port), 3e-6 + (p - 1) * n / p * 1e-9);
  }
}

TEST_CASE("overheads add up on a processor, and gaps on a port") {
  constexpr simulate::network slow{10, 1, 5, 0, 0};
  // The root's messages leave at 1, then every 5; they arrive 10 later, and receiving one takes 1.
  check(simulate::run(one_shot::broadcast{}, 5, 1000, slow), 1 + 3 * 5 + 10 + 1);
  // All arrive at 11; the port takes one every 5.
  check(simulate::run(one_shot::reduce{}, 5, 1000, slow), 1 + 10 + 3 * 5 + 1);
  check(simulate::run(dissemination::barrier{}, 9, 0, slow), 4 * 12);
}

TEST_CASE("a local combination takes processor time and no message") {
  constexpr simulate::network only_combining{0, 0, 0, 0, 1};
  check(simulate::run(chain::exclusive_scan{{.segments = 1}}, 4, 10, only_combining), 2 * 10);  // ranks 1 and 2
  check(simulate::run(chain::scan{{.segments = 1}}, 4, 10, only_combining), 3 * 10);
}

TEST_CASE("simulating one rank for all gives the same time, to the last bit") {
  const simulate::straggler none[] = {{0, 1.0}};  // no effect, but every rank has its own clock
  auto all = net;
  all.stragglers = none;
  int compared = 0;
  for_each_schedule([&](const char* name, const auto& s) {
    if (!is_relative<std::remove_cvref_t<decltype(s)>>()) return;
    for (int p = 2; p <= (testing::is_sanitized ? 20 : 70); ++p) {
      if (!supports(s, p)) continue;
      INFO(name << ", " << p << " ranks");
      const auto blocks = static_cast<std::size_t>(s.blocks(p));
      for (const std::size_t bytes : {std::size_t{0}, blocks, 1000 * blocks})
        CHECK(simulate::run(s, p, bytes, net) == simulate::run(s, p, bytes, all));
      const double odd = simulate::run(s, p, 1000 * blocks - blocks / 2,
                                       net);  // blocks of 1000 and of 999 bytes all count as long ones
      CHECK(odd >= simulate::run(s, p, 1000 * blocks - blocks / 2, all));
      if (blocks > 1) CHECK(odd == simulate::run(s, p, 1000 * blocks, net));
      ++compared;
    }
  });
  CHECK(compared > (testing::is_sanitized ? 150 : 500));
}

TEST_CASE("a million ranks are simulated") {
  const int p = 1'000'000;
  const double n = 4e8, most = n * (p - 1) / p;
  check(simulate::run(ring::allreduce{}, p, 400'000'000, net), 2 * (p - 1.0) * alpha + 2 * most * beta + most * gamma_);
  check(simulate::run(circulant::allreduce{}, p, 400'000'000, net), 2 * 20 * alpha + 2 * most * beta + most * gamma_);
  check(simulate::run(dissemination::barrier{}, p, 0, net), 20 * alpha);
}

// latency, overhead, gap, seconds_per_byte, seconds_per_byte_reduced, ranks_per_node, inside, cards_per_node
constexpr simulate::network nodes_of_4{10, 1, 0, 0.1, 0, 4, {3, 0.5, 0, 0.01}};

TEST_CASE("two levels: a message has the times of the link between its two ranks") {
  const double inside = 3 + 2 * 0.5 + 100 * 0.01, outside = 10 + 2 * 1 + 100 * 0.1;
  check(simulate::run(one_shot::broadcast{}, 2, 100, nodes_of_4), inside);
  check(simulate::run(recursive_doubling::allreduce{}, 4, 100, nodes_of_4), 2 * inside);
  check(simulate::run(recursive_doubling::allreduce{}, 32, 100, nodes_of_4), 2 * inside + 3 * outside);
  // Some message always passes between nodes, but a ring does not wait for it in every round.
  const double ring_time = simulate::run(ring::allgather{}, 8, 800, nodes_of_4);
  CHECK(ring_time > 7 * inside);
  CHECK(ring_time <= 7 * outside);
  // The two ports of a rank work at the same time: rank 0 sends 3 messages inside and 1 outside, one overhead after the other.
  check(simulate::run(one_shot::broadcast{}, 5, 100, nodes_of_4), 3 * 0.5 + outside);
}

TEST_CASE("cards: the ranks of a node share them, and each serves one message at a time, in each direction") {
  auto cards = nodes_of_4;
  const double one = 10 + 2 * 1 + 100 * 0.1;
  check(simulate::run(across{}, 8, 100, cards), one);
  cards.cards_per_node = 4;
  check(simulate::run(across{}, 8, 100, cards), one);
  cards.cards_per_node = 2;
  check(simulate::run(across{}, 8, 100, cards), one + 100 * 0.1);
  cards.cards_per_node = 1;
  check(simulate::run(across{}, 8, 100, cards), one + 3 * 100 * 0.1);
  cards.gap = 5;
  check(simulate::run(across{}, 8, 100, cards), one + 3 * (100 * 0.1 + 5));
  // No card is used inside a node.
  check(simulate::run(one_shot::allreduce{}, 4, 100, cards), simulate::run(one_shot::allreduce{}, 4, 100, nodes_of_4));
  // Seven ranks send to rank 0: three inside its node; four through their one card, and rank 0's card receives one message after the other.
  check(simulate::run(one_shot::gather{}, 8, 800, cards), 1 + 10 + 3 * (100 * 0.1 + 5) + 100 * 0.1 + 1);
  // Eight nodes of one rank with a card each are eight ranks with a port each: exactly, if ranks do the same at the same time; otherwise a card may receive a
  // message of a later round early, where a port waits for the messages of this round.
  auto alone = nodes_of_4;
  alone.ranks_per_node = 1;
  auto carded = alone;
  carded.cards_per_node = 1;
  for_each_schedule([&](const char* name, const auto& s) {
    INFO(name);
    check(simulate::run(s, 8, 800, alone), simulate::run(s, 8, 800, {10, 1, 0, 0.1, 0}));
    const double with = simulate::run(s, 8, 800, carded), without = simulate::run(s, 8, 800, alone);
    if (is_relative<std::remove_cvref_t<decltype(s)>>()) check(with, without);
    else CHECK((with > 0.5 * without && with < 1.5 * without));
  });
}

TEST_CASE("a straggler's processor takes longer") {
  const simulate::straggler third[] = {{2, 5}};
  simulate::network slow{10, 1, 0, 0.1, 0.01};
  slow.stragglers = third;
  // 0 -> 1 -> 2 -> 3: rank 2 receives, and then sends, with an overhead of 5.
  check(simulate::run(chain::broadcast{{.segments = 1}}, 4, 100, slow), 3 * (10 + 2 * 1 + 100 * 0.1) + 2 * 4);
  check(simulate::run(chain::scan{{.segments = 1}}, 4, 100, slow),
        3 * (10 + 2 * 1 + 100 * 0.1 + 100 * 0.01) + 2 * 4 + 4 * 100 * 0.01);
  check(simulate::run(one_shot::broadcast{}, 2, 100, slow), 10 + 2 * 1 + 100 * 0.1);  // there is no rank 2
}

TEST_CASE("noise: the same seed gives the same time, another seed another one, and no noise the exact one") {
  auto noisy = net;
  noisy.noise = 0.5;
  noisy.seed = 42;
  for_each_schedule([&](const char* name, const auto& s) {
    INFO(name);
    const auto seconds = [&](const simulate::network& n) { return simulate::run(s, 16, 100'000, n); };
    const double exact = seconds(net), once = seconds(noisy);
    CHECK(once == seconds(noisy));
    CHECK(once > exact);
    CHECK(once < 1.5 * exact);
    auto other = noisy;
    other.seed = 43;
    CHECK(seconds(other) != once);
    other.noise = 0;
    CHECK(seconds(other) == exact);
  });
  double least = 1, most = 0, total = 0;
  for (int i = 0; i < 10'000; ++i) {
    static kolo::detail::simulate::delays random;
    if (i % 1000 == 0) random = {7, i / 1000};
    const double x = random.next();
    least = std::min(least, x), most = std::max(most, x), total += x;
  }
  CHECK((least >= 0 && least < 0.01 && most > 0.99 && most < 1));
  CHECK(total / 10'000 == Approx(0.5).epsilon(0.02));
}

namespace {
/// S without its declaration.
template <class S>
struct undeclared : S {
  static constexpr bool relative = false;
};
}  // namespace

TEST_CASE("a relative schedule takes the same time whether every rank's steps are asked for, or only rank 0's") {
  const std::vector<simulate::straggler> slow{{3, 1.5}};
  const simulate::network nets[]{{.noise = 0.1}, {.ranks_per_node = 4, .noise = 0.2}, {.stragglers = slow}};
  const auto compare = [&]<class S>(const S&) {
    static_assert(is_relative<S>() && !is_relative<undeclared<S>>());
    for (const auto& n : nets)
      for (const int p : {2, 3, 12, 17})
        CHECK(simulate::run(S{}, p, std::size_t(p) * 1000, n) ==
              simulate::run(undeclared<S>{}, p, std::size_t(p) * 1000, n));
  };
  compare(ring::allreduce{});
  compare(circulant::allreduce{});
  compare(one_shot::reduce_scatter{});
  compare(dissemination::barrier{});
}

TEST_CASE("more bytes or a slower network take longer, and every schedule has a time") {
  for_each_schedule([](const char* name, const auto& schedule) {
    INFO(name);
    const int p = 16;
    const double some = simulate::run(schedule, p, 100'000, net);
    CHECK(some >= alpha);
    CHECK(simulate::run(schedule, p, 1'000'000, net) > some);
    auto slower = net;
    slower.latency *= 2;
    CHECK(simulate::run(schedule, p, 100'000, slower) > some);
    CHECK(simulate::run(schedule, 1, 100'000, net) == 0);
  });
}

TEST_CASE("an invalid simulation is refused with a reason") {
  const auto said = [](auto schedule, int ranks, const simulate::network& n = net) {
    return testing::words_of<std::invalid_argument>([&] { simulate::run(schedule, ranks, 8, n); });
  };
  CHECK(said(ring::allreduce{}, 0) == "kolo::simulate: 0 ranks; there must be one at least");
  CHECK(said(recursive_doubling::allgather{}, 6) == "kolo::simulate: this schedule does not support 6 ranks");
  const std::string waits =
      "kolo::simulate: rank 1 waits for a message that rank 0 does not send; ask kolo::verify about this schedule";
  CHECK(said(mute{}, 2) == waits);
  CHECK(said(mute{}, 2, {.ranks_per_node = 1, .cards_per_node = 1}) == waits);
  CHECK(said(ring::allreduce{}, 2, {.latency = -1}) ==
        "kolo::simulate: a network's times, and its noise, are finite and not negative");
  CHECK(said(ring::allreduce{}, 2, {.noise = std::numeric_limits<double>::infinity()}) ==
        "kolo::simulate: a network's times, and its noise, are finite and not negative");
  CHECK(said(ring::allreduce{}, 2, {.cards_per_node = 1}) == "kolo::simulate: cards_per_node needs ranks_per_node");
  CHECK(said(ring::allreduce{}, 2, {.ranks_per_node = -1}) ==
        "kolo::simulate: ranks_per_node and cards_per_node are numbers from 0 on");
  const simulate::straggler backwards[] = {{0, -1}};
  CHECK(said(ring::allreduce{}, 2, {.stragglers = backwards}) ==
        "kolo::simulate: a straggler has a rank and a factor, not negative");
}

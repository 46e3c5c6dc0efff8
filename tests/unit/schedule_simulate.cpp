// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The clock agrees with the closed formulas, and keeps the rules of the model where there is none.
#include "support/catch.hpp"
#include "unit/schedule_list.hpp"

#include <kolo/simulate/run.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

using namespace kolo;

namespace {

// latency, overhead, gap, seconds_per_byte, seconds_per_byte_reduced
constexpr simulate::network net{3e-6, 1e-6, 2e-6, 1e-9, 4e-10}, only_port{3e-6, 0, 0, 1e-9, 0};
const double alpha = net.alpha(), beta = net.seconds_per_byte, gamma_ = net.seconds_per_byte_reduced;

/// n bytes in p equal blocks.
std::size_t bytes_for(int p) { return static_cast<std::size_t>(p) * 1000; }

/// Its root sends nothing.
struct mute {
  static constexpr auto collective = kind::broadcast;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  static constexpr step at(int r, int, int) { return r == 0 ? step{} : step{transfer{.from = 0, .receive = {0, 1}}}; }
};

void check(double simulated, double formula) { CHECK(simulated == Approx(formula).epsilon(1e-9)); }

}  // namespace

TEST_CASE("the formula of the ring") {
  for (const int p : {2, 3, 4, 7, 16, 61, 128}) {
    const double n = static_cast<double>(bytes_for(p)), most = n * (p - 1) / p;
    INFO(p << " ranks");
    check(simulate::run(ring::allreduce{}, p, bytes_for(p), net), 2 * (p - 1) * alpha + 2 * most * beta + most * gamma_);
    check(simulate::run(ring::reduce_scatter{}, p, bytes_for(p), net), (p - 1) * alpha + most * beta + most * gamma_);
    check(simulate::run(ring::allgather{}, p, bytes_for(p), net), (p - 1) * alpha + most * beta);
  }
}

TEST_CASE("the formula of recursive doubling; of the fold it is the limit") {
  for (const int p : {2, 3, 4, 5, 8, 12, 16, 17, 63, 64, 100}) {
    const double n = static_cast<double>(bytes_for(p)), lg = ceil_log2(floor_power_of_two(p));
    const double core = lg * (alpha + n * beta + n * gamma_), folding = 2 * alpha + 2 * n * beta + n * gamma_;
    const double simulated = simulate::run(recursive_doubling::allreduce{}, p, bytes_for(p), net);
    INFO(p << " ranks");
    if (floor_power_of_two(p) == p) check(simulated, core);
    else if (p == 63 || p == 100) check(simulated, core + folding);  // some chain of messages stays within the pairs
    else CHECK((simulated > core && simulated <= (core + folding) * (1 + 1e-9)));  // who has no pair has sent its part already
  }
}

TEST_CASE("the formula of the circulant graph") {
  for (const int p : {2, 3, 5, 8, 13, 16, 33}) {
    const double n = static_cast<double>(bytes_for(p)), most = n * (p - 1) / p;
    INFO(p << " ranks");
    check(simulate::run(circulant::allreduce{}, p, bytes_for(p), net),
          2 * ceil_log2(p) * alpha + 2 * most * beta + most * gamma_);
  }
}

TEST_CASE("the formula of the binomial tree, which is reached where the tree is full") {
  for (int p = 2; p <= 130; ++p) {
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

TEST_CASE("a chain never waits: after the first segment one more every time a port is free") {
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
  // The root: leaves at 1, then every 5; arrives 10 later; is taken in 1.
  check(simulate::run(one_shot::broadcast{}, 5, 1000, slow), 1 + 3 * 5 + 10 + 1);
  // All arrive at 11; the port takes one every 5.
  check(simulate::run(one_shot::reduce{}, 5, 1000, slow), 1 + 10 + 3 * 5 + 1);
  check(simulate::run(dissemination::barrier{}, 9, 0, slow), 4 * 12);
}

TEST_CASE("a local combination takes a processor's time and no message") {
  constexpr simulate::network only_combining{0, 0, 0, 0, 1};
  check(simulate::run(chain::exclusive_scan{{.segments = 1}}, 4, 10, only_combining), 2 * 10);  // ranks 1 and 2
  check(simulate::run(chain::scan{{.segments = 1}}, 4, 10, only_combining), 3 * 10);
}

TEST_CASE("more ranks, more bytes, a slower network: never quicker; every schedule has a time") {
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

TEST_CASE("what cannot be simulated is refused with a sentence") {
  const auto said = [](auto schedule, int ranks) {
    try {
      simulate::run(schedule, ranks, 8, net);
    } catch (const std::invalid_argument& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  CHECK(said(ring::allreduce{}, 0) == "kolo::simulate: 0 ranks; there must be one at least");
  CHECK(said(recursive_doubling::allgather{}, 6) == "kolo::simulate: this schedule does not support 6 ranks");
  CHECK(said(mute{}, 2) ==
        "kolo::simulate: rank 1 waits for a message that rank 0 does not send; ask kolo::verify about this schedule");
}

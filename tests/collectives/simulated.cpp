// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole programs in virtual time: right results, the time that simulate::run predicts, and the same time in each run.
#include <kolo/explain.hpp>
#include <kolo/fit.hpp>
#include <kolo/kolo.hpp>
#include <kolo/simulate/run.hpp>
#include <kolo/simulate/simulated.hpp>
#include <kolo/train/optimizer.hpp>

#include <string>
#include <vector>

#include "collectives/any_schedule.hpp"
#include "support/callable_ref.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "unit/schedule/list.hpp"

using namespace kolo;
using testing::is_sanitized;

namespace {

using bytes = std::vector<unsigned char>;

#ifdef KOLO_SANITIZED
constexpr int some_sizes[] = {2, 5};
#else
constexpr int some_sizes[] = {2, 3, 4, 5, 8, 13};
#endif

constexpr simulate::straggler slow[] = {{1, 3}, {4, 1.5}};
// latency, overhead, gap, seconds_per_byte, seconds_per_byte_reduced
constexpr simulate::network plain{3e-6, 1e-6, 2e-6, 1e-9, 4e-10};
constexpr simulate::network uneven_links{3e-6, 1e-6, 2e-6, 1e-9, 4e-10, 3, {1e-6, 2e-7, 1e-7, 1e-10}, 0, 0.3, 7, slow};
constexpr simulate::network with_cards{3e-6, 1e-6, 2e-6, 1e-9, 4e-10, 4, {1e-6, 2e-7, 1e-7, 1e-10}, 2, 0.3, 7, slow};

/// A collective of n bytes in all, each 1, so that each byte of a sum is the number of ranks.
template <class C, Schedule S>
void call(C& comm, const S& s, std::size_t n) {
  const auto p = static_cast<std::size_t>(comm.size());
  constexpr auto k = S::collective;
  bytes whole(n, 1), result(n), part(n / p, 1), own(block(n, comm.size(), comm.rank()).count);
  if constexpr (k == kind::allreduce) allreduce(comm, whole, result, sum, s);
  if constexpr (k == kind::reduce_scatter) reduce_scatter(comm, whole, own, sum, s);
  if constexpr (k == kind::allgather) allgather(comm, part, result, s);
  if constexpr (k == kind::broadcast) broadcast(comm, whole, 0, s);
  if constexpr (k == kind::reduce) reduce(comm, whole, result, sum, 0, s);
  if constexpr (k == kind::gather) gather(comm, part, result, 0, s);
  if constexpr (k == kind::scatter) scatter(comm, whole, part, 0, s);
  if constexpr (k == kind::alltoall) alltoall(comm, whole, result, s);
  if constexpr (k == kind::scan) scan(comm, whole, result, sum, s);
  if constexpr (k == kind::exclusive_scan) exclusive_scan(comm, whole, result, sum, s);
  if constexpr (k == kind::barrier) barrier(comm, s);
}

using on_rank = testing::callable_ref<virtual_time::communicator&>;

/// virtual_time::run, compiled once for all lambdas.
virtual_time::times in_virtual_time(int p, const simulate::network& on, on_rank f,
                                    const virtual_time::options& o = {}) {
  return virtual_time::run(p, on, f, o);
}

/// How f ended on each rank: "fine", or the error.
std::vector<std::string> said(int p, on_rank f, const virtual_time::options& o = {}) {
  std::vector<std::string> all(static_cast<std::size_t>(p));
  try {
    in_virtual_time(
        p, plain,
        [&](virtual_time::communicator& comm) {
          auto& mine = all[static_cast<std::size_t>(comm.rank())];
          try {
            f(comm);
            mine = "fine";
          } catch (const error& e) {
            mine = std::string{name(e.code())} + ": " + e.what();
            throw;
          }
        },
        o);
  } catch (const std::exception&) {  // `all` has it already
  }
  return all;
}

}  // namespace

namespace {
template <Schedule S>
void check_seconds(const char* name, const S& s, int p, bool any_length) {
  for (const std::size_t some : {std::size_t{3}, std::size_t{1009}}) {
    const auto blocks = static_cast<std::size_t>(s.blocks(p));
    const auto n = s.collective == kind::barrier                     ? 1
                   : kolo::detail::schedule::has_parts(s.collective) ? some * blocks
                                                                     : some;
    INFO(name << ", " << p << " ranks, " << n << " bytes");
    const auto seconds = [&](const simulate::network& on) {
      return in_virtual_time(p, on, [&](auto& comm) { call(comm, s, n); }).seconds;
    };
    if (any_length || n % blocks == 0) CHECK(seconds(plain) == simulate::run(s, p, n, plain));
    CHECK(seconds(uneven_links) == simulate::run(s, p, n, uneven_links));
    CHECK(seconds(with_cards) == Approx(simulate::run(s, p, n, with_cards)).epsilon(1e-9));
  }
}
}  // namespace

TEST_CASE("simulated: each collective takes the time that simulate::run predicts for its schedule") {
  for_each_schedule([]<class S>(const char* name, const S& s) {
    if (kolo::detail::schedule::root_of(s) != 0) return;
    for (const int p : some_sizes)
      if (supports(s, p)) check_seconds(name, testing::any_schedule{s, p}, p, !is_relative<S>());
  });
}

TEST_CASE("simulated: hundreds of ranks have right results and repeatable times") {
  constexpr int p = is_sanitized ? 100 : 300;
  const auto once = [](const simulate::network& on) {
    int wrong = 0;
    const auto t = in_virtual_time(p, on, [&](auto& comm) {
      std::vector<int> x(1000, comm.rank()), y(10, comm.rank());
      allreduce(comm, x, sum);
      broadcast(comm, y, p - 1);
      wrong += x[0] != p * (p - 1) / 2 || x[999] != x[0] || y[9] != p - 1;
    });
    CHECK(wrong == 0);
    CHECK(t.seconds == *std::max_element(t.of_rank.begin(), t.of_rank.end()));
    return t;
  };
  const auto first = once(uneven_links), again = once(uneven_links);
  CHECK(first.seconds > 0);
  CHECK(first.of_rank == again.of_rank);
  auto other = uneven_links;
  other.seed = 8;
  CHECK(once(other).of_rank != first.of_rank);
}

namespace {
struct parameter {
  std::span<float> value, gradient;
};
struct sgd {
  float rate;
  void step(std::size_t, std::span<float> value, std::span<const float> gradient) const {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] -= rate * gradient[i];
  }
};
}  // namespace

TEST_CASE("simulated: a training loop takes the time of its computation and its exchanges") {
  constexpr int p = is_sanitized ? 32 : 128, steps = 5;
  const auto train = [](const simulate::network& on) {
    std::vector<float> last(p);
    const auto t = in_virtual_time(p, on, [&](auto& comm) {
      std::vector<float> w(1024, 0.0f), gw(1024);
      const std::vector<parameter> all{{w, gw}};
      distributed_optimizer optimizer{comm, sgd{0.5f}, all, ring{}};
      for (int i = 0; i < steps; ++i) {
        for (auto& g : gw) g = w[0] - static_cast<float>(comm.rank() % 2);  // the optimum is 1/2
        comm.transport().compute(1e-3);
        optimizer.step();
      }
      last[static_cast<std::size_t>(comm.rank())] = w[1023];
    });
    CHECK(last == std::vector<float>(p, 0.5f - 0.5f / 32));
    return t.seconds;
  };
  const double exchange = simulate::run(ring::allreduce{}, p, 4096, plain);
  CHECK(train(plain) == Approx(steps * (1e-3 + exchange)).epsilon(0.005));  // agreeing on the buckets takes a little
  const simulate::straggler one[] = {{p - 1, 2}};
  auto with_one = plain;
  with_one.stragglers = one;
  CHECK(train(with_one) > steps * (2e-3 + exchange));  // all wait for the straggler, which also sends more slowly
  CHECK(train(with_one) < steps * (2e-3 + 2 * exchange));
}

TEST_CASE("simulated: computation overlaps communication if a rank starts, computes and waits") {
  const double one = simulate::run(one_shot::broadcast{}, 4, 100'000, plain), work = 10 * one;
  const auto seconds = [&](bool overlapped) {
    return in_virtual_time(4, plain,
                           [&](auto& comm) {
                             bytes x(100'000, 1);
                             auto request = start_broadcast(comm, x, 0, one_shot{});
                             if (overlapped) request.test();
                             else request.wait();
                             comm.transport().compute(work);
                             request.wait();
                           })
        .seconds;
  };
  CHECK(seconds(false) == Approx(work + one));
  CHECK(seconds(true) < work + 6e-6);  // three messages are sent, and a test costs an overhead
}

TEST_CASE("simulated: testing until the end takes little longer than waiting") {
  constexpr std::size_t n = is_sanitized ? 3'000'000 : 30'000'000;
  const double one = simulate::run(ring::allreduce{}, 3, n, plain);
  const auto t = in_virtual_time(3, plain, [&](auto& comm) {
    bytes x(n, 1);
    auto request = start_allreduce(comm, x, sum, ring{});
    while (!request.test()) {
    }
  });
  CHECK(t.seconds >= one);
  CHECK(t.seconds < 1.5 * one);
}

TEST_CASE("simulated: a test sees a message that arrived while its rank computed") {
  in_virtual_time(2, plain, [&](auto& comm) {
    bytes x(1000, 1);
    auto request = start_broadcast(comm, x, 0, binomial{});
    if (comm.rank() == 1) {
      comm.transport().compute(4.5e-6);  // the message arrives after 1 + 3 + 1 microseconds
      const bool early = request.test();
      comm.transport().compute(5e-6);
      if (early || !request.test()) throw std::runtime_error{"the message arrived too early or too late"};
    }
  });
}

TEST_CASE("simulated: nodes, and communicators of their ranks") {
  simulate::network n = plain;
  n.ranks_per_node = 4;
  std::vector<std::string> all(10);
  in_virtual_time(10, n, [&](auto& comm) {
    auto node = comm.split(comm.node_rank(), 0);
    int one = 1;
    allreduce(node, std::span{&one, 1}, sum);
    auto& mine = all[static_cast<std::size_t>(comm.rank())];
    for (const int x : {comm.local_rank(), comm.local_size(), comm.node_rank(), comm.node_count(), node.rank(), one,
                        node.node_count()})
      mine += std::to_string(x) + ' ';
  });
  CHECK(all[5] == "1 4 1 3 1 4 1 ");
  CHECK(all[9] == "1 2 2 3 1 2 1 ");
}

TEST_CASE("simulated: a deadlock is a timeout that names which rank waits for which") {
  const auto all = said(3, [](auto& comm) {
    int x = 0;
    const std::span one{&x, 1};
    if (comm.rank() == 1) broadcast(comm, one, 0, one_shot{});
    else if (comm.rank() == 0) broadcast(comm, one, 2, one_shot{});
    else broadcast(comm, one, 1, one_shot{}, {.timeout = std::chrono::seconds{1}});
  });
  const std::string text =
      "timeout: kolo: broadcast #1, round 0, rank 2: no rank can go on: rank 0 waits for rank 2, rank 1 waits for rank "
      "0, rank 2 waits for rank 1";
  CHECK(all == std::vector<std::string>(3, text));
}

TEST_CASE("simulated: ranks that fail, leave, are late or make another call") {
  const auto fails = said(3, [](auto& comm) {
    if (comm.rank() == 1) throw error{errc::system, "no disk"};
    barrier(comm);
  });
  CHECK(fails[1] == "system: kolo: no disk");
  CHECK(fails[0] == "peer failed: kolo: rank 1: an exception destroyed its communicator");
  const auto leaves = said(3, [](auto& comm) {
    if (comm.rank() != 1) barrier(comm, one_shot{});
  });
  CHECK(leaves[1] == "fine");
  CHECK(leaves[0] ==
        "peer left: kolo: barrier #1, round 0, rank 2: rank 1 has destroyed its communicator, and is still waited for");
  const auto comes_late = said(2,
                               [](auto& comm) {
                                 if (comm.rank() == 1) comm.transport().compute(2);
                                 barrier(comm);
                               },
                               {.timeout = std::chrono::seconds{1}});
  CHECK(comes_late[0] ==
        "timeout: kolo: barrier #1, round 0, rank 0: rank 1 is late: it has not done its part within 1000 virtual ms");
  const auto differs = said(2, [](auto& comm) {
    std::vector<int> x(static_cast<std::size_t>(10 + comm.rank()));
    allreduce(comm, x, sum);
  });
  CHECK(differs[0].find("mismatch: ") == 0);
  const auto splits = said(2, [](auto& comm) {
    if (comm.rank() == 0) comm.split(0, 0);
    else barrier(comm);
  });
  CHECK(splits[0].find("timeout: ") == 0);
  CHECK(splits[0].find("no rank can go on: rank 0 waits for rank 1, rank 1 waits for rank 0") != std::string::npos);
}

TEST_CASE("simulated: invalid arguments are refused") {
  CHECK_THROWS_AS(virtual_time::run(0, plain, [](auto&) {}), error);
  simulate::network n = plain;
  n.latency = -1;
  CHECK_THROWS_AS(in_virtual_time(2, n, [](auto&) {}), std::invalid_argument);
  CHECK(said(2, [](auto& comm) { comm.transport().compute(-1); })[0] ==
        "invalid argument: kolo: compute takes seconds, from 0 on");
}

TEST_CASE("simulated: a fit measures the described network, and gives the same table in each run") {
  std::vector<double> tables[2];
  for (auto& table : tables)
    in_virtual_time(4, plain, [&](auto& comm) {
      const tuning fitted = fit(comm);
      if (comm.rank() == 0) detail::collective::for_each_number(fitted, [&](double x) { table.push_back(x); });
    });
  CHECK(tables[0] == tables[1]);
}

TEST_CASE("simulated: the automatic choice fits the described network, and takes about the predicted time") {
  for (const int p : {2, 8, 12, 64})
    for (const std::size_t n : {2u, 4096u, 1u << 20}) {
      if (is_sanitized && static_cast<std::size_t>(p) * n > 1u << 22) continue;
      double predicted = 0, took = 0;
      in_virtual_time(p, simulate::network{}, [&](auto& comm) {
        const auto e = explain(comm, kind::allreduce, n * sizeof(float));
        std::vector<float> x(n, 1.0f);
        allreduce(comm, x, sum);
        if (comm.rank() == 0) predicted = e.candidates.front().seconds, took = comm.transport().now();
      });
      INFO(p << " ranks, " << n << " floats");
      CHECK(took > 0.7 * predicted);
      CHECK(took < 1.2 * predicted);
    }
}

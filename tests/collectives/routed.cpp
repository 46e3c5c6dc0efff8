// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives over two transports as one, near and far, with ranks in any numbering: the bits of one transport alone, and failures.
#include <kolo/explain.hpp>
#include <kolo/fit.hpp>

#include "collectives/every_movement.hpp"
#include "collectives/every_reduction.hpp"
#include "collectives/pairs.hpp"
#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/routed_threads.hpp"

using namespace testing;

namespace {

template <auto Nodes, class F>
void with_slots_of(std::initializer_list<int> sizes, std::size_t slot_bytes, F each) {
  for (const int p : sizes)
    CHECK(on_ranks<over_routes<Nodes>>(
              p, [&](auto& comm, complaints& wrong) { each(comm, wrong, slot_bytes < 1000 ? 211 : 1009); },
              slot_bytes) == "");
}
template <class F>
void everywhere(F each) {
  with_slots_of<in_threes>({4, 8}, usual_slot, each);
  with_slots_of<in_threes>({7}, small_slot, each);
  with_slots_of<by_turns>({5}, small_slot, each);
  with_slots_of<together>({3}, usual_slot, each);
}

std::vector<float> fraction(int rank, std::size_t n) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = 1.0f / static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(rank) * 13) % 101);
  return x;
}

using bits = std::vector<std::vector<float>>;

/// Each rank's result of an allreduce of fractions, in one of three call modes.
template <class A>
auto sums(bits& all, const A& algorithm, std::size_t n) {
  return [&all, &algorithm, n](auto& comm) {
    auto x = fraction(comm.rank(), n);
    if (n % 3 == 0) kolo::allreduce(comm, x, kolo::sum, algorithm);
    else if (n % 3 == 1) kolo::start_allreduce(comm, x, kolo::sum, algorithm).wait();
    else kolo::plan_allreduce(comm, x, kolo::sum, algorithm).run();
    all[static_cast<std::size_t>(comm.rank())] = x;
  };
}

template <class A>
void same_bits(const std::vector<int>& nodes, const A& algorithm) {
  for (const std::size_t n : {1u, 30u, 1000u, 40'000u}) {
    bits near(nodes.size()), both(nodes.size());
    kolo::threads::run(static_cast<int>(nodes.size()), sums(near, algorithm, n));
    run_routed_threads(nodes, sums(both, algorithm, n));
    CHECK(near == both);
  }
}

}  // namespace

TEST_CASE("routed: collectives that combine") {
  everywhere([](auto& comm, complaints& wrong, std::size_t n) {
    every_allreduce(comm, wrong, n);
    every_reduce_scatter(comm, wrong, n);
    every_scan(comm, wrong, n);
  });
}

TEST_CASE("routed: collectives that do not combine") {
  everywhere([](auto& comm, complaints& wrong, std::size_t n) {
    every_allgather(comm, wrong, n);
    every_alltoall(comm, wrong, n);
    kolo::barrier(comm);
    kolo::start_barrier(comm).wait();
    every_pair(comm, wrong, n);
  });
}

TEST_CASE("routed: results have the bits of one transport") {
  using three_each = kolo::two_level<kolo::circulant, kolo::ring>;
  same_bits(in_threes(6), three_each{.nodes = {.ranks_per_node = 3}});
  same_bits(in_threes(7), three_each{.nodes = {.ranks_per_node = 3}});
  same_bits({0, 1, 1, 1, 2, 2}, kolo::two_level<>{.nodes = {.sizes = {1, 3, 2}}});
  same_bits(by_turns(4), kolo::ring{});
  for (const int p : {2, 3}) {  // on one node the algorithm, too, is the near transport's; over messages it differs
    same_bits(together(p), kolo::automatic{});
    same_bits(together(p), kolo::two_shot{});
  }
}

TEST_CASE("routed: on one node the algorithm is that of the near transport") {
  const auto choice = [](auto& comm) { return kolo::explain(comm, kolo::kind::allreduce, 1 << 20).message(); };
  std::string near, both, far;
  kolo::threads::run(3, [&](auto& comm) {
    if (comm.rank() == 0) near = choice(comm);
  });
  run_routed_threads(together(3), [&](auto& comm) {
    if (comm.rank() == 0) both = choice(comm);
  });
  run_routed_threads(by_turns(3), [&](auto& comm) {
    if (comm.rank() == 0) far = choice(comm);
  });
  CHECK(near == both);
  CHECK(far.find("stream") == std::string::npos);
  CHECK(far != near);
}

TEST_CASE("routed: two_level is chosen where it is predicted to be fast, if ranks are numbered node by node") {
  const auto names = [](auto& comm, kolo::kind k) {
    std::string all;
    for (const auto& c : kolo::explain(comm, k, 1 << 20).candidates) all += c.algorithm + ",";
    return all;
  };
  for (const auto& nodes : {in_threes(6), in_threes(7), std::vector<int>{0, 1, 1, 1}, by_turns(6)}) {
    std::vector<std::string> choices(nodes.size()), listed(nodes.size());
    run_routed_threads(nodes, [&](auto& comm) {
      const auto r = static_cast<std::size_t>(comm.rank());
      for (const auto k : {kolo::kind::allreduce, kolo::kind::reduce_scatter, kolo::kind::allgather})
        for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 16, std::size_t{1} << 20})
          choices[r] += kolo::explain(comm, k, bytes).choice + ",";
      listed[r] = names(comm, kolo::kind::allreduce) + names(comm, kolo::kind::allgather);
    });
    CHECK(choices == std::vector<std::string>(nodes.size(), choices[0]));
    CHECK((listed[0].find("two_level on 1 lane") == std::string::npos) == (nodes == by_turns(6)));
    CHECK((choices[0].find("two_level") == std::string::npos) == (nodes == by_turns(6)));
  }
}

TEST_CASE("routed: the workload of a schedule is counted for each transport") {
  using namespace kolo::detail::select;
  using kolo::detail::execute::erase_schedule;
  const std::vector<int> nodes{0, 0, 0, 1, 1, 1};
  static constexpr kolo::ring::allreduce around{};
  const auto [near, far] = workloads_on(nodes, erase_schedule(around, 6), kolo::kind::allreduce, 600);
  CHECK((far.messages == 5 && far.bytes == 500 && far.rounds == 10 &&
         far.duplex_rounds == 0));  // five rounds one way, five the other
  CHECK((near.messages == 10 && near.bytes == 1000 && near.combined == 500 && near.duplex_rounds == 10));
  CHECK((far.hops == 4 && near.hops == 6));
  const kolo::two_level<>::allreduce levels{{.nodes = {.ranks_per_node = 3}}};
  const auto [inside, across] = workloads_on(nodes, erase_schedule(levels, 6), kolo::kind::allreduce, 600);
  CHECK((across.bytes == 200 && across.hops == 2 && across.messages == 2));  // a third of the vector, both ways
  CHECK((inside.bytes == 800 && inside.hops == 4));
}

TEST_CASE("routed: a named table gives the times of the far transport; a fit excludes two_level where it decides") {
  run_routed_threads(in_threes(6), [](auto& comm) {
    const auto choice = [&](std::size_t bytes) { return kolo::explain(comm, kolo::kind::allreduce, bytes).choice; };
    if (choice(64) != "one_shot") throw std::runtime_error{"algorithm of a short vector: " + choice(64)};
    auto slow = kolo::default_tuning::messages;
    slow.rows[0].message = 1e-3;
    kolo::use_tuning(comm, slow);
    if (choice(64) != "two_level on 1 lane" && choice(64) != "two_level")
      throw std::runtime_error{"algorithm where a far message takes long: " + choice(64)};
    auto other = comm.split(0, comm.rank());
    kolo::fit(other);
    for (const auto& c : kolo::explain(other, kolo::kind::allgather, 1 << 20).candidates)
      if (c.algorithm.starts_with("two_level")) throw std::runtime_error{"two_level after a fit"};
    if (kolo::explain(other, kolo::kind::allreduce, 64).choice != choice(64))
      throw std::runtime_error{"a fit changed a choice that keeps the rank order"};
    if (kolo::explain(other, kolo::kind::allreduce, 64, {.allowed = kolo::order::any}).choice.starts_with("two_level"))
      throw std::runtime_error{"two_level in any order, after a fit"};
  });
}

TEST_CASE("routed: each run that a fit measures begins with a barrier, over slots too") {
  const auto barriers = [](auto& comm) {
    std::vector<std::uint64_t> calls;  // the call number before each run
    kolo::detail::collective::probe(comm, [&] { calls.push_back(comm.engine()->sequence); });
    for (std::size_t i = 1; i < calls.size(); ++i)
      if (calls[i] != calls[i - 1] + 1) throw std::runtime_error{"a run without a barrier"};
  };
  run_routed_threads(in_threes(4), barriers);
  kolo::threads::run(2, barriers);
}

TEST_CASE("routed: cached choices outlive the communicator that made them, and so do the plans that use them") {
  std::atomic<int> wrong = 0;
  run_routed_threads(in_threes(9), [&](auto& comm) {
    const auto in_two_levels = [&](std::size_t n) {
      return kolo::explain(comm, kolo::kind::allreduce, n * sizeof(int), {.allowed = kolo::order::any})
          .choice.starts_with("two_level");
    };
    std::size_t n = 1;
    while (n < 4'000'000 && !in_two_levels(n)) n = n * 5 / 4 + 1;
    wrong += !in_two_levels(n);
    std::vector<int> x(n, 1), y(n, 1);
    using communicator = std::remove_cvref_t<decltype(comm)>;
    std::optional<communicator> first{comm.split(0, comm.rank())};
    auto second = comm.split(0, comm.rank());
    kolo::allreduce(*first, x, kolo::sum);
    auto planned = kolo::plan_allreduce(second, y, kolo::sum);
    planned.run();
    { const auto dropped = second.take_choices(); }
    auto known = first->take_choices();
    kolo::barrier(comm);
    first.reset();
    std::vector<std::vector<char>> other;  // overwrites the freed memory
    for (std::size_t bytes = 16; bytes < 4096; bytes += 16) other.emplace_back(bytes, '\x5a');
    second.begin_with(std::move(known));
    kolo::allreduce(second, x, kolo::sum);
    planned.run();
    for (std::size_t i = 0; i < n; ++i) wrong += x[i] != 81 || y[i] != 81;
    kolo::barrier(comm);  // a refused call fails `second`, so all other calls on it must have ended
    try {
      kolo::fit(second);  // invalid after a choice, and the other communicator made one
      ++wrong;
    } catch (const kolo::error& e) {
      wrong += e.code() != kolo::errc::invalid_argument && e.code() != kolo::errc::peer_failed;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("routed: split keeps the nodes of the ranks") {
  run_routed_threads(in_threes(7), [](auto& comm) {
    auto turned = comm.split(0, -comm.rank());
    auto pairs = turned.split(turned.rank() / 2, 0);  // ranks 6 5, 4 3, 2 1, 0
    const int node = comm.rank() / 3, other = pairs.rank() == 0 ? comm.rank() - 1 : comm.rank() + 1;
    const bool together = other / 3 == node;
    if (turned.node_count() != 3 || turned.node_rank() != 2 - node ||
        turned.local_rank() != (comm.rank() == 6 ? 0 : 2 - comm.rank() % 3))
      throw std::runtime_error{"turned"};
    if (comm.rank() > 0 && (pairs.node_count() != (together ? 1 : 2) || pairs.local_size() != (together ? 2 : 1)))
      throw std::runtime_error{"pairs"};
    int x[] = {1};
    kolo::allreduce(pairs, x, kolo::sum);
    kolo::allreduce(turned, x, kolo::sum);
    if (x[0] != 13) throw std::runtime_error{"the sum of all"};
  });
}

TEST_CASE("routed: a failure fails both transports, with the same error") {
  for (const auto& nodes : {in_threes(4), by_turns(5)}) {
    const int last = static_cast<int>(nodes.size()) - 1;
    std::vector<std::string> ends(nodes.size()), later(nodes.size());
    const auto each = [&](auto broken) {
      return [&, broken](auto& comm) {
        const auto r = static_cast<std::size_t>(comm.rank());
        int x[100]{};
        ends[r] = end_of([&] {
          kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
          if (comm.rank() == last) broken(comm, x);
          for (int k = 0; k < 3; ++k) kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
        });
        later[r] = end_of([&] { kolo::barrier(comm); });
      };
    };
    run_routed_threads(nodes, each([](auto& comm, auto&) { comm.engine()->refuse("barrier", "a test"); }));
    CHECK(later == std::vector<std::string>(nodes.size(), "peer failed " + std::to_string(last)));
    CHECK(std::vector(ends.begin(), ends.end() - 1) == std::vector(later.begin(), later.end() - 1));
    run_routed_threads(nodes, each([](auto& comm, auto& x) { kolo::allreduce(comm, x, kolo::max, kolo::ring{}); }));
    CHECK(ends == std::vector<std::string>(nodes.size(), ends[0]));
    CHECK(ends == later);
    CHECK(ends[0].starts_with("mismatch "));
  }
}

TEST_CASE("routed: a rank that does not split with its node is named by its global rank") {
  const auto said = refused_split([](auto f) {
    run_routed_threads<near_that_refuses>({0, 1, 1}, f, {.timeout = std::chrono::milliseconds{300}});
  });
  CHECK(said == "split 1 2");
}

TEST_CASE("routed: if a rank of the same node has left, it is named by its global rank") {
  const std::vector<int> nodes{0, 1, 1, 0};
  std::vector<std::string> ends(nodes.size());
  run_routed_threads(nodes, [&](auto& comm) {
    int x[10]{};
    if (comm.rank() == 2) return;
    ends[static_cast<std::size_t>(comm.rank())] = end_of([&] {
      kolo::broadcast(comm, x, 1, kolo::binomial{}), kolo::reduce(comm, x, x, kolo::sum, 1, kolo::one_shot{});
    });
  });
  CHECK(ends[1] == "peer left 2");
}

TEST_CASE("routed: an exception destroys the communicator, and the other ranks get peer_failed") {
  const auto thrown = [](int who) {
    std::vector<std::string> ends(4);
    try {
      run_routed_threads({0, 0, 1, 1}, [&](auto& comm) {
        if (comm.rank() == who) throw std::runtime_error{"its own"};
        ends[static_cast<std::size_t>(comm.rank())] = end_of([&] { kolo::barrier(comm); });
      });
    } catch (const std::runtime_error&) {
    }
    return ends;
  };
  for (const int who : {1, 3})
    for (int r = 0; r < 4; ++r)
      if (r != who) CHECK(thrown(who)[static_cast<std::size_t>(r)] == "peer failed " + std::to_string(who));
}

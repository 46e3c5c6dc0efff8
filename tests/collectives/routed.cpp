// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives over two wires as one: near and far, in any numbering, with the bits of one wire alone; and what happens when something goes wrong.
#include "collectives/every_movement.hpp"
#include "collectives/every_reduction.hpp"
#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/routed_threads.hpp"

using namespace testing;

namespace {

template <auto Nodes, class F>
void with_slots_of(std::initializer_list<int> sizes, std::size_t slot_bytes, F each) {
  for (const int p : sizes)
    CHECK(on_ranks<over_routes<Nodes>>(p, [&](auto& comm, complaints& wrong) { each(comm, wrong, slot_bytes < 1000 ? 211 : 1009); }, slot_bytes) == "");
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
  for (std::size_t i = 0; i < n; ++i) x[i] = 1.0f / static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(rank) * 13) % 101);
  return x;
}

using bits = std::vector<std::vector<float>>;

/// What each rank has after an allreduce of fractions, in one of its three manners.
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

TEST_CASE("routed: what combines") {
  everywhere([](auto& comm, complaints& wrong, std::size_t n) {
    every_allreduce(comm, wrong, n);
    every_reduce_scatter(comm, wrong, n);
    every_scan(comm, wrong, n);
  });
}

TEST_CASE("routed: what moves") {
  everywhere([](auto& comm, complaints& wrong, std::size_t n) {
    every_allgather(comm, wrong, n);
    every_alltoall(comm, wrong, n);
    kolo::barrier(comm);
    kolo::start_barrier(comm).wait();
  });
}

TEST_CASE("routed: the bits of one wire") {
  using three_each = kolo::two_level<kolo::circulant, kolo::ring>;
  same_bits(in_threes(6), three_each{.nodes = {.ranks_per_node = 3}});
  same_bits(in_threes(7), three_each{.nodes = {.ranks_per_node = 3}});
  same_bits({0, 1, 1, 1, 2, 2}, kolo::two_level<>{.nodes = {.sizes = {1, 3, 2}}});
  same_bits(by_turns(4), kolo::ring{});
  for (const int p : {2, 3}) {  // and on one node the same choice, which over messages would be another
    same_bits(together(p), kolo::automatic{});
    same_bits(together(p), kolo::two_shot{});
  }
}

TEST_CASE("routed: on one node the choice is that of the near wire") {
  const auto choice = [](auto& comm) { return kolo::explain(comm, kolo::kind::allreduce, 1 << 20).message(); };
  std::string near, both, far;
  kolo::threads::run(3, [&](auto& comm) { if (comm.rank() == 0) near = choice(comm); });
  run_routed_threads(together(3), [&](auto& comm) { if (comm.rank() == 0) both = choice(comm); });
  run_routed_threads(by_turns(3), [&](auto& comm) { if (comm.rank() == 0) far = choice(comm); });
  CHECK(near == both);
  CHECK(far.find("stream") == std::string::npos);
  CHECK(far != near);
}

TEST_CASE("routed: groups keep their nodes") {
  run_routed_threads(in_threes(7), [](auto& comm) {
    auto turned = comm.split(0, -comm.rank());
    auto pairs = turned.split(turned.rank() / 2, 0);  // ranks 6 5, 4 3, 2 1, 0
    const int node = comm.rank() / 3, other = pairs.rank() == 0 ? comm.rank() - 1 : comm.rank() + 1;
    const bool together = other / 3 == node;
    if (turned.node_count() != 3 || turned.node_rank() != 2 - node || turned.local_rank() != (comm.rank() == 6 ? 0 : 2 - comm.rank() % 3)) throw std::runtime_error{"turned"};
    if (comm.rank() > 0 && (pairs.node_count() != (together ? 1 : 2) || pairs.local_size() != (together ? 2 : 1))) throw std::runtime_error{"pairs"};
    int x[] = {1};
    kolo::allreduce(pairs, x, kolo::sum);
    kolo::allreduce(turned, x, kolo::sum);
    if (x[0] != 13) throw std::runtime_error{"the sum of all"};
  });
}

TEST_CASE("routed: a failure is known on both wires, and is the same") {
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

TEST_CASE("routed: a neighbour that has left is named by its rank") {
  const std::vector<int> nodes{0, 1, 1, 0};
  std::vector<std::string> ends(nodes.size());
  run_routed_threads(nodes, [&](auto& comm) {
    int x[10]{};
    if (comm.rank() == 2) return;
    ends[static_cast<std::size_t>(comm.rank())] = end_of([&] { kolo::broadcast(comm, x, 1, kolo::binomial{}), kolo::reduce(comm, x, x, kolo::sum, 1, kolo::one_shot{}); });
  });
  CHECK(ends[1] == "peer left 2");
}

TEST_CASE("routed: an exception destroys a communicator") {
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

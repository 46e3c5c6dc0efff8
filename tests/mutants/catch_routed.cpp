// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in two transports as one: collectives among threads on several nodes, numbered node by node and alternately; a failure; a neighbour that
// left.
// built with others: ranks
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/collective/topology_of.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/two_level.hpp>
#include <kolo/select/explain.hpp>

#include <chrono>
#include <memory>
#include <vector>

#include "support/expect.hpp"
#include "support/routed_threads.hpp"

namespace {

using testing::expect, testing::good;

template <class A>
void sum(testing::routed_communicator& comm, const A& algorithm) {
  for (const std::size_t n : {5, 1009}) {
    std::vector<unsigned> x(n), wanted(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = static_cast<unsigned>(comm.rank() + 1) * static_cast<unsigned>(i + 1);
      wanted[i] = static_cast<unsigned>(comm.size() * (comm.size() + 1) / 2) * static_cast<unsigned>(i + 1);
    }
    kolo::allreduce(comm, x, kolo::sum, algorithm);
    expect(x == wanted);
  }
}

/// The number of candidates for a megabyte.
std::size_t ways(testing::routed_communicator& comm, kolo::kind k = kolo::kind::allreduce) {
  return kolo::explain(comm, k, 1 << 20).candidates.size();
}

/// The workloads of a ring over two nodes, on each transport.
void counts() {
  static constexpr kolo::ring::allreduce around{};
  const std::vector<int> nodes{0, 0, 0, 1, 1, 1};
  const auto [near, far] = kolo::detail::select::workloads_on(nodes, kolo::detail::execute::erase_schedule(around, 6),
                                                              kolo::kind::allreduce, 600);
  expect(near.messages == 10 && near.bytes == 1000 && far.messages == 5 && far.bytes == 500);
}

void choices() {
  counts();
  testing::run_routed_threads(testing::in_threes(6), [](auto& comm) {
    expect(ways(comm) == 9 && ways(comm, kolo::kind::allgather) == 6);
    comm.engine()->fitted = std::make_unique<const kolo::tuning>(kolo::default_tuning::messages);
    expect(ways(comm) == 9 && ways(comm, kolo::kind::allgather) == 4);
    comm.engine()->resolved.fitted_nodes = std::make_shared<const kolo::detail::select::node_schedules<>>(
        kolo::topology{.ranks_per_node = 3}, 6, kolo::tuning{}, []<kolo::kind K>() {
          return std::span<const kolo::detail::select::candidate>{kolo::detail::select::candidates_for<K, false>};
        });
    const auto gathered = kolo::explain(comm, kolo::kind::allgather, 1 << 20).candidates;  // two_level costs nothing
    expect(gathered.size() == 6 && gathered[1].seconds == 0 && gathered[2].seconds > 0);
  });
  testing::run_routed_threads(testing::by_turns(6), [](auto& comm) { expect(ways(comm) == 7); });
}

void failures() {
  const kolo::threads::options soon{.timeout = std::chrono::seconds{5}};
  testing::run_routed_threads(
      {0, 0, 1, 1},
      [](auto& comm) {
        try {
          if (comm.rank() == 3) comm.engine()->refuse("barrier", "a test");
          for (int k = 0; k < 3; ++k) kolo::barrier(comm);
          expect(false);
        } catch (const kolo::error& e) {
          expect(e.peer() == 3 && (e.code() == kolo::errc::peer_failed || comm.rank() == 3));
        }
      },
      soon);
  testing::run_routed_threads(
      {0, 1, 1},
      [](auto& comm) {
        int x[4]{};
        if (comm.rank() != 1) try {
            kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
            expect(false);
          } catch (const kolo::error& e) {
            expect(e.peer() == 1 && e.code() == kolo::errc::peer_left);
          }
      },
      soon);
}

}  // namespace

int main() {
  expect(testing::refused_split([](auto f) {
           testing::run_routed_threads<testing::near_that_refuses>({0, 1, 1}, f,
                                                                   {.timeout = std::chrono::milliseconds{300}});
         }) == "split 1 2");
  const kolo::threads::options o{.timeout = std::chrono::seconds{5}, .slot_bytes = 64};
  testing::run_routed_threads(
      testing::in_threes(7),
      [](auto& comm) {
        const auto nodes = kolo::topology_of(comm);
        expect(nodes.ranks_per_node == 3);
        sum(comm, kolo::two_level<>{.nodes = nodes});
        sum(comm, kolo::ring{});
      },
      o);
  testing::run_routed_threads(
      {0, 1, 1},
      [](auto& comm) {
        const auto nodes = kolo::topology_of(comm);
        expect(nodes.ranks_per_node == 0 && nodes.sizes[0] == 1 && nodes.sizes[1] == 2);
      },
      o);
  testing::run_routed_threads(
      testing::by_turns(5),
      [](auto& comm) {
        sum(comm, kolo::ring{});
        auto turned = comm.split(0, -comm.rank());
        expect(turned.node_count() == 2 && turned.local_size() == comm.local_size());
        sum(turned, kolo::ring{});
        try {
          kolo::topology_of(comm);
          expect(false);
        } catch (const kolo::error& e) {
          expect(e.code() == kolo::errc::invalid_argument);
        }
      },
      o);
  choices();
  failures();
  return good ? 0 : 1;
}

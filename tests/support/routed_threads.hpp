// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads on nodes: neighbours share slots, the others send messages. For tests, without MPI or shared memory, of what runs over both.
#pragma once

#include <kolo/compose/routed.hpp>
#include <kolo/impl/engine.hpp>

#include <algorithm>
#include <latch>
#include <map>
#include <stdexcept>
#include <string>

#include "support/message_threads.hpp"

namespace testing {

using routed_transport = kolo::routed<kolo::threads::transport, message_transport>;
using routed_communicator = kolo::communicator<routed_transport>;

/// A transport within nodes on which a rank may refuse to split: its neighbours wait for it.
struct near_that_refuses : kolo::threads::transport {
  using Base = kolo::threads::transport;
  using Base::Base;
  explicit near_that_refuses(Base&& made) : Base{std::move(made)} {}
  near_that_refuses split(int color, int key) {
    if (refuses) throw std::runtime_error{"refuses to split"};
    return near_that_refuses{Base::split(color, key)};
  }
  inline static thread_local bool refuses = false;
};

/// Rank 2 refuses to split. Returns rank 1's error: the operation, its rank and its peer.
template <class Run>
std::string refused_split(Run run) {
  std::string said;
  std::latch given_up{1};
  run([&](auto& comm) {
    if (comm.rank() == 2) near_that_refuses::refuses = true;
    try {
      comm.split(0, 0);
    } catch (const kolo::error& e) {
      if (comm.rank() != 1) return;
      said = std::string{e.operation()} + ' ' + std::to_string(e.rank()) + ' ' + std::to_string(e.peer());
      given_up.count_down();
    } catch (const std::runtime_error&) {
      given_up.wait();
    }
  });
  return said;
}

/// As kolo::threads::run, with as many ranks as `nodes` has numbers: rank r is on node nodes[r]. f begins when all ranks have their communicators: making
/// one takes messages, which a failure of a rank that is ahead would end.
template <class Near = kolo::threads::transport, class F>
void run_routed_threads(const std::vector<int>& nodes, F f, const kolo::threads::options& o = {}) {
  const auto size = static_cast<int>(nodes.size());
  kolo::detail::shm::private_mapping memory;
  const auto begin = [&](int ranks) {
    const kolo::detail::shm::region_shape shape{ranks, o};
    return std::pair{kolo::threads::transport::initialise(memory, shape), shape};
  };
  const auto far = begin(size);
  std::map<int, decltype(begin(1))> near;
  for (const int n : nodes)
    near.try_emplace(n, near.count(n) ? far : begin(static_cast<int>(std::count(nodes.begin(), nodes.end(), n))));
  run_when_all_have_come(
      size,
      [&](int rank) {
        const int node = nodes[static_cast<std::size_t>(rank)];
        const auto number = static_cast<int>(std::count(nodes.begin(), nodes.begin() + rank, node));
        Near neighbours{memory, near.at(node).first, near.at(node).second, number};
        return kolo::communicator<kolo::routed<Near, message_transport>>{
            std::move(neighbours), message_transport{memory, far.first, far.second, rank}, node};
      },
      f);
}

/// Three on each node; on two nodes in turn, so that ranks are not numbered node by node; all on one.
inline std::vector<int> in_threes(int p) {
  std::vector<int> nodes;
  for (int r = 0; r < p; ++r) nodes.push_back(r / 3);
  return nodes;
}
inline std::vector<int> by_turns(int p) {
  std::vector<int> nodes;
  for (int r = 0; r < p; ++r) nodes.push_back(r % 2);
  return nodes;
}
inline std::vector<int> together(int p) { return std::vector<int>(static_cast<std::size_t>(p), 5); }

template <auto Nodes>
struct over_routes {
  using communicator = routed_communicator;
  template <class F>
  static void run(int p, F f, std::size_t slot_bytes) {
    run_routed_threads(Nodes(p), f, {.timeout = std::chrono::seconds{60}, .slot_bytes = slot_bytes});
  }
};

}  // namespace testing

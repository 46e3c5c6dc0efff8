// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shared state of the ranks of a simulated communicator: the messages between them, and which rank waits for what.
#pragma once

#include <kolo/core/rank.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/simulate/lockstep_scheduler.hpp>
#include <kolo/transport/node_map.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::virtual_time {

/// The options of all simulated ranks, given when they are started.
struct options {
  std::chrono::nanoseconds timeout{std::chrono::minutes{5}};  ///< in virtual time; of operations that set none
  std::size_t piece_bytes =
      std::size_t{1} << 40;  ///< see kolo::MessageTransport; by default blocks travel whole, as in kolo::simulate::run
  bool checked = false;      ///< see observe/checked.hpp
};

}  // namespace kolo::inline KOLO_ABI::virtual_time

namespace kolo::inline KOLO_ABI::detail::simulate {

struct group;

struct message final : queued_message {
  std::vector<std::byte> data{};
  std::uint64_t tag = 0;
  incoming what{};
  bool is_here = true;  ///< false until it has come in through its card
  group* of = nullptr;
  int to = 0;  ///< the receiver's rank in the group
  void reach_card() override;
};

/// From one rank to another: messages that are not received yet, and receives that wait for one.
struct message_queue {
  struct receipt {
    std::byte* data;
    std::size_t bytes;
    std::uint64_t tag;
  };
  std::deque<message> came{};
  std::deque<receipt> waiting{};
  std::uint64_t finished = 0;  ///< completed receives
};

struct world;

/// The ranks of a communicator. Only the thread that holds the token uses it.
struct group {
  struct member {
    int number;  ///< its rank among all ranks
    std::map<int, message_queue> from{};
    const message_queue* asked = nullptr;  ///< the queue that it waits for, if any
    std::uint64_t asked_number = 0;
    std::optional<wait_context> asleep{};
    bool has_left = false, posting = false;
    int color = 0, key = 0;  ///< of its split
    bool splits = false;
    std::pair<group*, int> child{};  ///< the new group, and its rank there
  };
  world& all;
  std::vector<member> members{};
  std::optional<failure> failed{};

  member& at(int r) { return members[std::size_t(r)]; }
  int size() const { return int(members.size()); }
  placement place(int r) const;
  bool is_sent(int r) const;
  double comes(int r);
  void wake(int r);
  void divide();
};

struct world : lockstep_scheduler {
  world(int ranks, const kolo::simulate::network& n, const virtual_time::options& o)
      : lockstep_scheduler{ranks, n}, options{o} {}
  virtual_time::options options;
  std::deque<group> groups{};  ///< never removed, since messages may be in flight
};

inline placement group::place(int r) const {
  std::vector<int> nodes;
  for (const member& m : members) nodes.push_back(all.clock().node_of(m.number));
  return transport::node_map{nodes}.placement_of(r);
}

/// Whether all messages that rank r waits for have been sent.
inline bool group::is_sent(int r) const {
  const auto& me = members[std::size_t(r)];
  return me.asked && me.asked_number - me.asked->finished < me.asked->came.size();
}

/// The time at which rank r has all messages that it waits for; `never` if that is not known yet.
inline double group::comes(int r) {
  const auto& me = at(r);
  if (!is_sent(r)) return lockstep_scheduler::never;
  double last = 0;
  for (std::uint64_t i = 0; i <= me.asked_number - me.asked->finished; ++i) {
    const message& m = me.asked->came[i];
    if (!m.is_here) return lockstep_scheduler::never;
    last = std::max(last, all.clock().earliest(me.number, m.what));
  }
  return last;
}

/// Wakes rank r if it is known when it has what it waits for.
inline void group::wake(int r) {
  auto& me = at(r);
  if (!me.asleep || me.splits) return;
  if (const double then = me.asked ? comes(r) : all.time(me.number); then < lockstep_scheduler::never)
    all.wake(me.number, then);
}

inline void message::reach_card() {
  of->all.clock().come_in(of->at(to).number, what);
  is_here = true;
  of->wake(to);
}

/// Called by the last rank that gives its color: makes the new groups. It takes as long as a barrier.
inline void group::divide() {
  std::map<int, std::vector<std::pair<int, int>>> colors;
  double last = 0;
  for (int r = 0; r < size(); ++r) {
    colors[at(r).color].emplace_back(at(r).key, r);
    last = std::max(last, all.time(at(r).number));
  }
  last += ceil_log2(size()) * all.clock().described().alpha();
  for (auto& [color, ranks] : colors) {
    std::sort(ranks.begin(), ranks.end());
    auto& child = all.groups.emplace_back(group{all});
    for (const auto& [key, r] : ranks) {
      at(r).child = {&child, child.size()};
      child.members.push_back({at(r).number});
    }
  }
  for (member& m : members) {
    m.splits = false;
    all.wait_until(m.number, last);
    all.wake(m.number, last);
  }
}

/// The host's executor; combining also takes virtual time.
struct executor : execute::host_executor {
  world* all = nullptr;
  int number = 0;

  void combine(const auto& k, std::byte* dst, const auto* sources, int n, std::size_t count, int finish_size) const {
    all->apply_pending(number);
    all->clock().combine(number, std::size_t(n - 1) * count * k.element_bytes);
    host_executor::combine(k, dst, sources, n, count, finish_size);
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::simulate

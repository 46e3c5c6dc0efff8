// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Simulates a schedule on a network whose ranks share cards or links: all events in the order of time.
#pragma once

#include <kolo/simulate/event_queue.hpp>
#include <kolo/simulate/round_by_round.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::simulate {

/// The rank with the earliest clock sends all messages of its round; then it waits until all messages of that round to
/// it have arrived. A card sends messages in the order in which they are posted, and receives them in the order of
/// arrival; so does a link of a graph.
template <class Machine>
class event_driven {
 public:
  /// `network`: what a Machine is made of, besides the number of ranks.
  event_driven(const schedule::erased_schedule& s, std::size_t bytes, const auto&... network)
      : s_{s},
        bytes_{s, bytes},
        machine_{s.size, network...},
        ranks_(std::size_t(s.size)),
        slot_(ranks_.size(), nobody) {}

  double run() {
    for (int r = 0; r < s_.size; ++r) prepare(r);
    while (!events_.empty()) {
      const auto e = events_.pop();
      if (e.is_message) come_in(e);
      else send(e.rank);
    }
    double end = 0;
    for (int r = 0; r < s_.size; ++r) {
      if (rank(r).round < s_.rounds) complain(r);
      end = std::max(end, machine_.now(r));
    }
    return end;
  }

 private:
  struct message_in_flight {
    incoming what{};
    int round = 0;
    [[no_unique_address]] typename Machine::position where{};
  };
  struct state {
    int round = 0;
    step now{};
    std::size_t missing = 0, combined = 0;  ///< in this round: messages to arrive, bytes to combine
    bool has_sent = false;
    std::vector<message_in_flight> came{};  ///< arrived messages, of this round and of later ones
  };

  state& rank(int r) { return ranks_[std::size_t(r)]; }

  /// Begins the next round, if there is one.
  void prepare(int r) {
    auto& me = rank(r);
    if (me.round == s_.rounds) return;
    s_.list(me.round, r, 1, &me.now);
    me.has_sent = false;
    me.missing = 0;
    me.combined = for_each_received(bytes_, r, s_.size, me.now, [&](int, std::size_t) { ++me.missing; });
    for (const message_in_flight& l : me.came) me.missing -= l.round == me.round ? 1 : 0;
    machine_.combine(r, combined_locally(bytes_, r, me.now));
    events_.add_rank(r, machine_.now(r));
  }

  void send(int r) {
    auto& me = rank(r);
    for_each_sent(bytes_, r, s_.size, me.now, [&](int to, std::size_t n) {
      if (!bytes_.is_sent(n)) return;
      const message_in_flight l{{n, machine_.send(r, to, n), r}, me.round, {}};
      if (!machine_.is_shared(r, to)) return deliver(to, l);
      if (free_.empty()) free_.push_back(&flying_.emplace_back());
      auto* const entry = free_.back();
      free_.pop_back();
      *entry = l;
      events_.add_message(to, l.what.at, entry);
    });
    me.has_sent = true;
    if (me.missing == 0) end_round(r);
  }

  void come_in(const event_queue::event& e) {
    auto* const l = static_cast<message_in_flight*>(e.message);
    if (!machine_.pass_link(e.rank, l->what, l->where)) return events_.add_message(e.rank, l->what.at, l);
    free_.push_back(l);
    deliver(e.rank, message_in_flight{*l});
  }

  void deliver(int to, const message_in_flight& l) {
    auto& me = rank(to);
    me.came.push_back(l);
    if (l.round == me.round && --me.missing == 0 && me.has_sent) end_round(to);
  }

  void end_round(int r) {
    auto& me = rank(r);
    taken_.clear();
    for_each_received(bytes_, r, s_.size, me.now, [&](int from, std::size_t n) {
      slot_[std::size_t(from)] = int(taken_.size());
      taken_.push_back({n, 0, nobody});
    });
    std::erase_if(me.came, [&](const message_in_flight& l) {
      const int i = std::exchange(slot_[std::size_t(l.what.from)], nobody);
      if (l.round != me.round) return slot_[std::size_t(l.what.from)] = i, false;
      if (i != nobody) taken_[std::size_t(i)] = l.what;
      return true;
    });
    for (const incoming& a : taken_)
      if (a.from == nobody) complain(r);
    machine_.take(r, taken_);
    machine_.combine(r, me.combined);
    ++me.round;
    prepare(r);
  }

  /// Throws: rank r waits for a message that no rank sends.
  [[noreturn]] void complain(int r) {
    const auto& me = rank(r);
    for_each_received(bytes_, r, s_.size, me.now, [&](int from, std::size_t) {
      const auto is_it = [&](const message_in_flight& l) { return l.what.from == from && l.round == me.round; };
      if (std::none_of(me.came.begin(), me.came.end(), is_it)) throw_never_arrives(from, r);
    });
    throw_never_arrives(r, r);
  }

  const schedule::erased_schedule& s_;
  lengths bytes_;
  Machine machine_;
  event_queue events_{};
  std::vector<state> ranks_;
  std::vector<int> slot_;  // by sender, the index of its message in taken_
  std::deque<message_in_flight> flying_{};
  std::vector<message_in_flight*> free_{};
  std::vector<incoming> taken_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::simulate

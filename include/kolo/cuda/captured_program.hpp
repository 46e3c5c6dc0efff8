// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The work that a rank would put on its stream, recorded: its actions and messages, and those of all ranks joined into
// one program.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/cuda/program.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Memory, as intervals that do not touch each other.
class intervals {
 public:
  using bytes_of = std::span<const std::byte>;

  void clear() { ends_.clear(); }
  bool overlaps(bytes_of m) const {
    const auto behind = ends_.lower_bound(m.data() + m.size());
    return !m.empty() && behind != ends_.begin() && std::prev(behind)->second > m.data();
  }
  void add(bytes_of m) {
    if (m.empty()) return;
    const std::byte *first = m.data(), *last = first + m.size();
    for (auto next = ends_.upper_bound(last); next != ends_.begin() && std::prev(next)->second >= first;
         next = ends_.erase(std::prev(next))) {
      first = std::min(first, std::prev(next)->first);
      last = std::max(last, std::prev(next)->second);
    }
    ends_[first] = last;
  }

 private:
  std::map<const std::byte*, const std::byte*> ends_;  ///< by where they begin
};

/// The actions and messages of one rank, in the order of the calls. The receiver copies the messages of a round in one
/// phase, which waits for the phases that the senders have before that round. The phase after the round waits until the
/// receivers have copied all that this rank sent in it.
class captured_program {
 public:
  using bytes_of = intervals::bytes_of;

  struct message {
    int peer;
    std::byte* data;
    std::size_t bytes;
    std::uint64_t tag;
    std::uint32_t phases = 0;  ///< that this rank has done when it can be copied (sent), or is copied (received)
    std::uint32_t action = 0;  ///< the action that copies it
  };
  struct phase_of_rank {
    std::uint32_t first_action = 0;
    std::vector<std::size_t> arrivals{}, departures{};  ///< waits for these of `receives`, of `sends`
  };

  std::vector<action> actions{};
  std::vector<source> sources{};
  std::vector<phase_of_rank> phases{1};  ///< only the last may have no actions: then the rank has ended
  std::vector<message> sends{}, receives{};
  const kernel* compute = nullptr;  ///< of the actions that combine or convert; null: there are none

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0) add(copy_of(to, from, bytes), {{from, bytes}}, {{to, bytes}});
  }
  void combine(const kernel& k, std::byte* to, const source* from, int n, std::size_t count, int finish_size) {
    compute = &k;
    std::vector<bytes_of> read;
    std::uintptr_t all = address(to);
    for (const source& s : std::span{from, std::size_t(n)}) {
      read.push_back({s.data, count * (s.on_wire ? k.wire_bytes : k.element_bytes)});
      all |= address(s.data);
    }
    const auto first = std::uint32_t(sources.size());
    sources.insert(sources.end(), from, from + n);
    add({action::kind::combine, n, finish_size, first, std::uint32_t(all), k.element_bytes, to, nullptr, nullptr,
         count},
        read, {{to, count * k.element_bytes}});
  }
  void narrow(const kernel& k, std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count) {
    compute = &k;
    const auto all = address(wire) | address(from) | address(rounded);
    add({action::kind::narrow, 0, 0, 0, std::uint32_t(all), k.element_bytes, wire, from, rounded, count},
        {{from, count * k.element_bytes}},
        {{wire, wire ? count * k.wire_bytes : 0}, {rounded, rounded ? count * k.element_bytes : 0}});
  }
  void widen(const kernel& k, std::byte* to, const std::byte* wire, std::size_t count) {
    compute = &k;
    const auto all = address(to) | address(wire);
    add({action::kind::widen, 0, 0, 0, std::uint32_t(all), k.element_bytes, to, wire, nullptr, count},
        {{wire, count * k.wire_bytes}}, {{to, count * k.element_bytes}});
  }

  void send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    sends.push_back({peer, const_cast<std::byte*>(data), bytes, tag});
  }
  void receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    receives.push_back({peer, data, bytes, tag});
  }
  /// The messages since the last call are those of one round.
  void submit() {
    if (sends.size() == sent_ && receives.size() == received_) return;
    next_phase();
    const auto before = std::uint32_t(phases.size() - 1);
    for (; received_ < receives.size(); ++received_) {
      message& m = receives[received_];
      m.phases = before + 1;
      m.action = std::uint32_t(actions.size());
      actions.push_back(copy_of(m.data, nullptr, m.bytes));
      phases.back().arrivals.push_back(received_);
    }
    next_phase();
    for (; sent_ < sends.size(); ++sent_) {
      sends[sent_].phases = before;
      phases.back().departures.push_back(sent_);
    }
  }
  std::uint32_t actions_of(std::size_t index) const {
    const auto end = index + 1 < phases.size() ? phases[index + 1].first_action : std::uint32_t(actions.size());
    return end - phases[index].first_action;
  }

 private:
  static action copy_of(std::byte* to, const std::byte* from, std::size_t bytes) {
    return {action::kind::copy, 0, 0, 0, 0, 1, to, from, nullptr, bytes};
  }
  static std::uintptr_t address(const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p); }

  /// Adds to the last phase, or to a new one where the action must come after actions of the last.
  void add(const action& a, const std::vector<bytes_of>& read, const std::vector<bytes_of>& written) {
    const auto any = [](const std::vector<bytes_of>& all, const intervals& others) {
      return std::any_of(all.begin(), all.end(), [&](bytes_of m) { return others.overlaps(m); });
    };
    if (any(read, written_) || any(written, written_) || any(written, read_)) next_phase();
    for (const auto& m : read) read_.add(m);
    for (const auto& m : written) written_.add(m);
    actions.push_back(a);
  }
  void next_phase() {
    if (actions_of(phases.size() - 1) > 0) phases.push_back({std::uint32_t(actions.size())});
    read_.clear();
    written_.clear();
  }

  std::size_t sent_ = 0, received_ = 0;
  intervals read_{}, written_{};  ///< in the last phase
};

/// The lists of a program, of all ranks.
struct program_lists {
  std::vector<rank_part> parts{};
  std::vector<phase> phases{};
  std::vector<milestone> milestones{};
  std::vector<action> actions{};
  std::vector<source> sources{};

  /// Blocks that a rank can keep busy in the largest phase: four times 16 bytes a thread.
  int useful_blocks() const {
    constexpr std::size_t of_a_block = 256 * 4 * 16, most = 4096;
    std::size_t largest = 1;
    for (const phase& p : phases) {
      std::size_t all = 0;
      for (std::uint32_t i = 0; i < p.actions; ++i)
        all += actions[p.first_action + i].count * actions[p.first_action + i].element_bytes;
      largest = std::max(largest, all);
    }
    return int(std::min((largest + of_a_block - 1) / of_a_block, most));
  }
};

/// Joins the captured programs of all ranks: the n-th message that one rank sends to another is the n-th that the other
/// expects from it.
class linked_program {
 public:
  /// Throws errc::mismatch where messages do not match, or where ranks would wait for each other in a circle: no such
  /// kernel may begin.
  static program_lists join(const std::vector<const captured_program*>& all) {
    linked_program j{all};
    for (int rank = 0; rank < int(all.size()); ++rank) j.add(rank);
    if (!j.can_finish()) throw error{errc::mismatch, "the schedule makes ranks wait for each other in a cycle"};
    return std::move(j.lists_);
  }

 private:
  using pair = std::pair<int, int>;  ///< from, to

  explicit linked_program(const std::vector<const captured_program*>& all) : all_{all} {
    for (int r = 0; r < int(all.size()); ++r) {
      const captured_program& n = *all[std::size_t(r)];
      for (std::size_t i = 0; i < n.sends.size(); ++i) sends_[{r, n.sends[i].peer}].push_back(&n.sends[i]);
      for (std::size_t i = 0; i < n.receives.size(); ++i) receives_[{n.receives[i].peer, r}].push_back(&n.receives[i]);
    }
    for (const auto& [between, sent] : sends_) check(between, sent, receives_[between]);
    for (const auto& [between, expected] : receives_) check(between, sends_[between], expected);
  }

  using messages = std::vector<const captured_program::message*>;
  void check(const pair& between, const messages& sent, const messages& expected) {
    const bool agree =
        std::equal(sent.begin(), sent.end(), expected.begin(), expected.end(),
                   [](const auto* a, const auto* b) { return a->bytes == b->bytes && a->tag == b->tag; });
    if (!agree)
      throw error{errc::mismatch, "rank " + std::to_string(between.first) + " sends other messages than rank " +
                                      std::to_string(between.second) + " expects of it"};
    for (std::size_t i = 0; i < sent.size(); ++i) {
      other_side_[sent[i]] = expected[i];
      other_side_[expected[i]] = sent[i];
    }
  }

  void add(int rank) {
    const captured_program& n = *all_[std::size_t(rank)];
    const auto first_action = std::uint32_t(lists_.actions.size()), first_source = std::uint32_t(lists_.sources.size());
    lists_.parts.push_back({rank, std::uint32_t(lists_.phases.size()), 0});
    for (action a : n.actions) {
      a.first_source += first_source;
      lists_.actions.push_back(a);
    }
    lists_.sources.insert(lists_.sources.end(), n.sources.begin(), n.sources.end());
    for (const auto& m : n.receives) lists_.actions[first_action + m.action].from = other_side_.at(&m)->data;
    for (std::size_t i = 0; i < n.phases.size(); ++i) {
      if (n.actions_of(i) == 0) continue;  // the last
      const auto& one = n.phases[i];
      const auto first = std::uint32_t(lists_.milestones.size());
      for (const auto m : one.arrivals)
        lists_.milestones.push_back({n.receives[m].peer, other_side_.at(&n.receives[m])->phases});
      for (const auto m : one.departures)
        lists_.milestones.push_back({n.sends[m].peer, other_side_.at(&n.sends[m])->phases});
      lists_.phases.push_back(
          {first_action + one.first_action, n.actions_of(i), first, std::uint32_t(lists_.milestones.size()) - first});
      ++lists_.parts.back().phases;
    }
  }

  bool can_finish() const {
    std::vector<std::uint32_t> done(lists_.parts.size(), 0);
    const auto may_begin = [&](const rank_part& r, std::uint32_t index) {
      const phase& p = lists_.phases[r.first_phase + index];
      const auto* const first = lists_.milestones.data() + p.first_milestone;
      return std::all_of(first, first + p.milestones,
                         [&](const milestone& m) { return done[std::size_t(m.rank)] >= m.phases; });
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (const rank_part& r : lists_.parts)
        for (auto& d = done[std::size_t(r.rank)]; d < r.phases && may_begin(r, d); moved = true) ++d;
    }
    return std::all_of(lists_.parts.begin(), lists_.parts.end(),
                       [&](const rank_part& r) { return done[std::size_t(r.rank)] == r.phases; });
  }

  const std::vector<const captured_program*>& all_;
  std::map<pair, messages> sends_{}, receives_{};
  std::map<const captured_program::message*, const captured_program::message*> other_side_{};
  program_lists lists_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

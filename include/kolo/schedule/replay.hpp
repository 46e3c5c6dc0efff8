// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A replay of a schedule, right or wrong: what every block of every rank holds before each round, and every message.
// Opt-in, with draw.hpp.
#pragma once

#include <kolo/schedule/erased_schedule.hpp>
#include <kolo/schedule/semantics.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// The ranks whose contributions a block holds, one bit each. In a barrier: the ranks known to have arrived; where
/// nothing is combined: the one rank that the block comes from.
struct holding {
  std::uint64_t ranks = 0;
  bool twice = false;  ///< some contribution has been counted twice
  friend bool operator==(const holding&, const holding&) = default;
};

/// A message, or a transfer of a rank to itself (`from == to`). Block sent[i] arrives as received[i]; `received` is
/// empty if the other rank expects no message.
struct movement {
  int round = 0, from = 0, to = 0;
  std::vector<int> sent{}, received{};
  bool combines = false;
};

/// Replays a schedule of at most 64 ranks. Unlike the proof it does not stop at a fault: it carries out every send, and
/// skips ranks and blocks that do not exist.
class replay {
 public:
  static constexpr int most_ranks = 64;

  explicit replay(const erased_schedule& s)
      : s_{s},
        blocks_{s.blocks * block_sets(s.collective) + s.scratch},
        held_(std::size_t(s.rounds + 1) * std::size_t(s.size * blocks_)) {
    for (int r = 0; r < s.size; ++r)
      for (int b = 0; b < s.blocks; ++b)
        if (held_before(s.collective, r, b, s.blocks, s.size, s.root))
          cell(0, r, b).ranks = std::uint64_t{1} << source(r, b);
    for (int k = 0; k < s.rounds; ++k) run(k);
  }

  /// The number of blocks of one rank, with scratch.
  int blocks() const { return blocks_; }
  /// The content of block b of rank r before round `moment`; if that is the number of rounds, after the last one.
  const holding& at(int moment, int r, int b) const { return held_[index(moment, r, b)]; }
  /// In the order of the rounds, and within a round in the order of the senders.
  const std::vector<movement>& movements() const { return movements_; }

 private:
  std::size_t index(int moment, int r, int b) const {
    return std::size_t(moment * s_.size + r) * std::size_t(blocks_) + std::size_t(b);
  }
  holding& cell(int moment, int r, int b) { return held_[index(moment, r, b)]; }
  int source(int r, int b) const {
    return s_.collective == kind::allgather || s_.collective == kind::gather ? owner(b, s_.blocks, s_.size) : r;
  }

  void run(int round) {
    for (int r = 0; r < s_.size; ++r)
      for (int b = 0; b < blocks_; ++b) cell(round + 1, r, b) = at(round, r, b);
    for (int r = 0; r < s_.size; ++r)
      for (const transfer& t : step{s_.at(r, round)})
        for (int i = 0; i < t.to.count && t.to.is_sound(s_.size); ++i) {
          movement m{round, r, t.to.at(i, s_.size), blocks_of(t.send, i)};
          receive(m);
          arrive(m);
          movements_.push_back(m);
        }
  }

  std::vector<int> blocks_of(const block_range& range, int peer) const {
    std::vector<int> all;
    for (int i = 0; i < range.count && i < blocks_ && range.run > 0; ++i)
      all.push_back(block_at(range, i, peer, s_.blocks, block_sets(s_.collective)));
    return all;
  }

  /// Fills in the receiver's side: its first transfer that expects a message from this sender.
  void receive(movement& m) const {
    for (const transfer& t : step{s_.at(m.to, m.round)})
      if (const int i = t.from.is_sound(s_.size) ? t.from.index_of(m.from, s_.size) : nobody; i != nobody) {
        m.received = blocks_of(t.receive, i);
        m.combines = t.then != arrival::replace;
        return;
      }
  }

  void arrive(const movement& m) {
    const auto exists = [this](int b) { return b >= 0 && b < blocks_; };
    for (std::size_t i = 0; i < m.sent.size() && i < m.received.size(); ++i) {
      if (!exists(m.sent[i]) || !exists(m.received[i])) continue;
      const holding& theirs = at(m.round, m.from, m.sent[i]);
      holding& mine = cell(m.round + 1, m.to, m.received[i]);
      if (s_.collective == kind::barrier) mine.ranks |= theirs.ranks;
      else if (!m.combines) mine = theirs;
      else mine = {mine.ranks | theirs.ranks, mine.twice || theirs.twice || (mine.ranks & theirs.ranks) != 0};
    }
  }

  const erased_schedule& s_;
  int blocks_;
  std::vector<holding> held_;
  std::vector<movement> movements_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule

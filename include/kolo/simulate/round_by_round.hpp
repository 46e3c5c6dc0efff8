// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Simulates a schedule round by round: bytes, messages, and the clocks of all ranks, one rank after the other.
#pragma once

#include <kolo/schedule/cost.hpp>
#include <kolo/schedule/erased_schedule.hpp>
#include <kolo/simulate/machine.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::simulate {

inline void require_supported(int ranks, bool is_supported) {
  if (!is_supported)
    throw std::invalid_argument("kolo::simulate: this schedule does not support " + std::to_string(ranks) + " ranks");
}

/// The bytes of ranges of blocks, usually without a division.
class lengths {
 public:
  lengths(const schedule::erased_schedule& s, std::size_t bytes)
      : blocks_{s.blocks},
        block_sets_{schedule::block_sets(s.collective)},
        bytes_{bytes},
        short_{bytes / std::size_t(blocks_)},
        longer_{int(bytes % std::size_t(blocks_))} {}

  std::size_t of(const block_range& range, int peer) const {
    if (longer_ == 0) return range.count > 0 ? std::size_t(range.count) * short_ : 0;
    if (range.count != 1) return bytes_in(range, peer, blocks_, block_sets_, bytes_);
    return short_ + (schedule::block_at(range, 0, peer, blocks_, block_sets_) % blocks_ < longer_ ? 1 : 0);
  }
  /// Whether a message is sent: not if it is empty, unless the vector has no bytes at all, as in a barrier.
  bool is_sent(std::size_t bytes) const { return bytes > 0 || bytes_ == 0; }

 private:
  int blocks_, block_sets_;
  std::size_t bytes_, short_;
  int longer_;  // number of blocks, at the beginning, that are a byte longer
};

inline bool is_alone(int r, const transfer& t) { return t.to.count == 1 && t.to.first == r; }

/// Charges what rank r combines in transfers to itself, before it sends.
void combine_local(auto& m, const lengths& bytes, int r, const step& now) {
  for (const transfer& t : now)
    if (is_alone(r, t) && t.then != arrival::replace) m.combine(r, bytes.of(t.receive, 0));
}

/// Calls see(peer, bytes) for all that rank r sends.
void for_each_sent(const lengths& bytes, int r, int size, const step& now, auto see) {
  for (const transfer& t : now)
    for (int i = 0; i < t.to.count && !is_alone(r, t); ++i) see(t.to.at(i, size), bytes.of(t.send, i));
}

/// Calls see(peer, bytes) for all that rank r receives. Returns the bytes that are then combined.
std::size_t for_each_received(const lengths& bytes, int r, int size, const step& now, auto see) {
  std::size_t combined = 0;
  for (const transfer& t : now)
    for (int i = 0; i < t.from.count && !is_alone(r, t); ++i) {
      const auto n = bytes.of(t.receive, i);
      if (t.then != arrival::replace) combined += n;
      if (bytes.is_sent(n)) see(t.from.at(i, size), n);
    }
  return combined;
}

[[noreturn]] inline void throw_never_arrives(int from, int to) {
  throw std::invalid_argument("kolo::simulate: rank " + std::to_string(to) + " waits for a message that rank " +
                              std::to_string(from) + " does not send; ask kolo::verify about this schedule");
}

/// Simulates round after round, and in each rank after rank: for networks without cards, where the order of the ranks
/// does not matter. With `ranks` 1, rank 0 represents all: for every message that it sends, it receives one at the same
/// time from the opposite side.
class round_by_round {
 public:
  round_by_round(const schedule::erased_schedule& s, std::size_t bytes, const kolo::simulate::network& n, int ranks)
      : s_{s}, ranks_{ranks}, bytes_{s, bytes}, machine_{ranks, n}, rounds_(std::size_t(ranks) + 1) {}

  double run() {
    step some[16];  // few enough for the first cache
    for (int k = 0; k < s_.rounds; ++k) {
      sent_.clear();
      arrives_.clear();
      came_.clear();
      for (int first = 0; first < ranks_; first += 16) {
        const int count = std::min(16, ranks_ - first);
        s_.list(k, first, count, some);
        for (int i = 0; i < count; ++i) send(first + i, some[i]);
      }
      rounds_.back() = {sent_.size(), came_.size(), 0};
      for (int r = 0; r < ranks_; ++r) receive(r);
    }
    double end = 0;
    for (int r = 0; r < ranks_; ++r) end = std::max(end, machine_.now(r));
    return end;
  }

 private:
  struct messages {
    peer_range to;
    std::size_t first;  ///< index of the first arrival time
  };
  struct round_of_rank {
    std::size_t sent, came;  ///< indices of the first of the rank
    std::size_t combined;    ///< bytes
  };

  void send(int r, const step& now) {
    auto& me = rounds_[std::size_t(r)];
    me = {sent_.size(), came_.size(), 0};
    combine_local(machine_, bytes_, r, now);
    auto index = arrives_.size();
    for (const transfer& t : now)
      if (!is_alone(r, t)) sent_.push_back({t.to, std::exchange(index, index + std::size_t(t.to.count))});
    for_each_sent(bytes_, r, s_.size, now,
                  [&](int to, std::size_t n) { arrives_.push_back(bytes_.is_sent(n) ? machine_.send(r, to, n) : 0); });
    me.combined = for_each_received(bytes_, r, s_.size, now, [&](int from, std::size_t n) {
      came_.push_back({n, 0, from});
    });
  }

  void receive(int r) {
    const auto& me = rounds_[std::size_t(r)];
    const std::span all{came_.data() + me.came, came_.data() + (&me)[1].came};
    for (incoming& a : all) a.at = arrival_of(a.from, r);
    machine_.take(r, all);
    machine_.combine(r, me.combined);
  }

  /// The arrival time of this round's message from s to r.
  double arrival_of(int s, int r) const {
    const bool represents_all = ranks_ == 1;
    const auto* const sender = &rounds_[represents_all ? 0 : std::size_t(s)];
    const int receiver = represents_all ? mod(r - s, s_.size) : r;
    for (auto k = sender->sent; k < sender[1].sent; ++k)
      if (const int i = sent_[k].to.index_of(receiver, s_.size); i != nobody)
        return arrives_[sent_[k].first + std::size_t(i)];
    throw_never_arrives(s, r);
  }

  const schedule::erased_schedule& s_;
  int ranks_;
  lengths bytes_;
  machine machine_;
  std::vector<round_of_rank> rounds_;  // of every rank, and an end
  std::vector<messages> sent_{};       // in this round, rank by rank
  std::vector<double> arrives_{};      // their arrival times
  std::vector<incoming> came_{};       // messages to all ranks in this round, rank by rank
};

}  // namespace kolo::inline KOLO_ABI::detail::simulate

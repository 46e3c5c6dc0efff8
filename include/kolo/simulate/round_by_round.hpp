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

/// The bytes that rank r combines in transfers to itself, before it sends.
inline std::size_t combined_locally(const lengths& bytes, int r, const step& now) {
  std::size_t n = 0;
  for (const transfer& t : now)
    if (is_alone(r, t) && t.then != arrival::replace) n += bytes.of(t.receive, 0);
  return n;
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

/// Simulates a relative schedule whose blocks are equally long, round after round: what rank 0 does, every rank does,
/// moved around the circle. With `ranks` 1, rank 0 represents all: for every message that it sends, it receives one at
/// the same time from the opposite side.
class moved_rounds {
 public:
  moved_rounds(const schedule::erased_schedule& s, std::size_t bytes, const kolo::simulate::network& n, int ranks)
      : s_{s}, ranks_{ranks}, bytes_{s, bytes}, machine_{ranks, n} {}

  double run() {
    for (int k = 0; k < s_.rounds; ++k) round(k);
    return machine_.end();
  }

 private:
  struct message {
    int peer;  ///< of rank 0
    std::size_t bytes, index = 0;
  };

  void round(int k) {
    step now;
    s_.list(k, 0, 1, &now);
    sent_.clear();
    received_.clear();
    for_each_sent(bytes_, 0, s_.size, now, [&](int to, std::size_t n) { sent_.push_back({to, n}); });
    const auto before = combined_locally(bytes_, 0, now);
    const auto after = for_each_received(bytes_, 0, s_.size, now, [&](int from, std::size_t n) {
      received_.push_back({from, n, index_of(from, now)});
    });
    arrives_.resize(std::size_t(ranks_) * sent_.size());
    came_.resize(received_.size());
    auto at = arrives_.begin();
    for (int r = 0; r < ranks_; ++r) {
      machine_.combine(r, before);
      for (const message& m : sent_) *at++ = bytes_.is_sent(m.bytes) ? machine_.send(r, moved(m.peer, r), m.bytes) : 0;
    }
    for (int r = 0; r < ranks_; ++r) {
      auto a = came_.begin();
      for (const message& m : received_) {
        const int from = moved(m.peer, r);
        *a++ = {m.bytes, arrives_[(ranks_ == 1 ? 0 : std::size_t(from)) * sent_.size() + m.index], from};
      }
      machine_.take(r, came_);
      machine_.combine(r, after);
    }
  }
  int moved(int peer, int r) const { return peer + r < s_.size ? peer + r : peer + r - s_.size; }  // without a division

  /// The index of the message, among all that a rank sends, that rank s sends to rank 0.
  std::size_t index_of(int s, const step& now) const {
    std::size_t index = 0;
    for (const transfer& t : now) {
      if (is_alone(0, t)) continue;
      if (const int i = t.to.index_of(mod(-s, s_.size), s_.size); i != nobody) return index + std::size_t(i);
      index += std::size_t(t.to.count);
    }
    throw_never_arrives(s, 0);
  }

  const schedule::erased_schedule& s_;
  int ranks_;
  lengths bytes_;
  machine machine_;
  std::vector<message> sent_{}, received_{};  // by rank 0 in this round
  std::vector<double> arrives_{};             // arrival times of this round's messages, rank by rank
  std::vector<incoming> came_{};              // messages to one rank in this round
};

/// Simulates round after round, and in each rank after rank: for networks without cards, where the order of the ranks
/// does not matter.
class round_by_round {
 public:
  round_by_round(const schedule::erased_schedule& s, std::size_t bytes, const kolo::simulate::network& n)
      : s_{s}, ranks_{s.size}, bytes_{s, bytes}, machine_{s.size, n}, rounds_(std::size_t(s.size) + 1) {}

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
    return machine_.end();
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
    machine_.combine(r, combined_locally(bytes_, r, now));
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
    const auto* const sender = &rounds_[std::size_t(s)];
    for (auto k = sender->sent; k < sender[1].sent; ++k)
      if (const int i = sent_[k].to.index_of(r, s_.size); i != nobody) return arrives_[sent_[k].first + std::size_t(i)];
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

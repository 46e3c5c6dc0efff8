// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The proof of a relative schedule by one rank: every rank holds what rank 0 holds, moved around the circle.
#pragma once

#include <kolo/schedule/erased_schedule.hpp>
#include <kolo/schedule/relative.hpp>
#include <kolo/schedule/semantics.hpp>
#include <kolo/schedule/verdict.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// Executes rank 0 only. What it receives from rank s is what it sends to rank -s itself, with all ranks moved by s
/// around the circle. The steps of all other ranks are checked to be those of rank 0, moved; if that would be more than
/// `most_steps` steps, those of some ranks in each round.
///
/// Not for schedules whose order of combination is not relative to the rank, nor for kinds whose blocks have both a
/// source and a destination.
class representative {
 public:
  static constexpr std::int64_t most_steps = 200'000'000;

  explicit representative(const erased_schedule& s)
      : s_{s},
        p_{s.size},
        held_(std::size_t(s.blocks)),
        next_(held_.size()),
        sent_(held_.size(), -1),
        written_(held_.size(), -1) {
    const bool all = std::int64_t{p_} * s.rounds <= most_steps;
    found_ = {.collective = s.collective, .size = p_};
    found_.way = all ? proof_way::one_rank : proof_way::one_rank_and_samples;
    for (int b = 0; b < s.blocks; ++b)
      if (held_before(s.collective, 0, b, s.blocks, p_)) held_[index(b)] = {0, 0};
  }

  /// Returns nothing if rank 0 alone does not determine the verdict.
  std::optional<verdict> run() {
    const kind k = s_.collective;
    const bool one_end =
        k == kind::allreduce || k == kind::reduce_scatter || k == kind::allgather || k == kind::barrier;
    if (!s_.relative || !one_end || (s_.ordered && reduces(k))) return {};
    for (round_ = 0; round_ < s_.rounds; ++round_)
      if (!play()) return verdict_if_decided();
    round_ = -1;
    examine();
    return verdict_if_decided();
  }

 private:
  /// The tree of contributions with this number, moved by `moved` ranks. Tree 0 is rank 0's contribution.
  struct value {
    int tree = -1, moved = 0;
  };
  struct combination {
    value left{}, right{};
    std::int64_t leaves = 1;
  };

  std::optional<verdict> verdict_if_decided() const { return is_decided_ ? std::optional{found_} : std::nullopt; }
  bool fail(fault what, int block = -1, int rank = 0) {
    found_.what = what, found_.rank = rank, found_.round = round_, found_.block = block;
    return false;
  }
  bool give_up() { return is_decided_ = false; }

  static std::size_t index(int b) { return std::size_t(b); }
  bool exists(int b) const { return b >= 0 && b < s_.blocks; }
  int at(const block_range& range, int i, int peer) const { return block_at(range, i, peer, s_.blocks, 1); }
  value moved(value v, int by) const { return {v.tree, v.tree < 0 ? 0 : mod(v.moved + by, p_)}; }
  bool is_heard() const { return s_.collective == kind::barrier; }

  bool play() {
    now_ = s_.at(0, round_);
    for (const transfer& t : now_)
      if (!is_sound(t)) return false;
    if (!all_do_the_same()) return false;
    for (const transfer& t : now_)
      if (!depart(t)) return false;
    for (const transfer& t : now_)
      if (!arrive(t)) return false;
    for (const int b : touched_) held_[index(b)] = next_[index(b)];
    touched_.clear();
    return true;
  }

  bool all_do_the_same() {
    const auto is_same = [this](int r) {
      return is_moved(now_, s_.at(r, round_), r, p_, s_.blocks, 1) || fail(fault::not_relative, -1, r);
    };
    if (found_.way == proof_way::one_rank) {
      for (int r = 0; r < p_; ++r)
        if (!is_same(r)) return false;
      return true;
    }
    const int any = int((std::uint64_t(round_) * 0x9e3779b97f4a7c15u >> 33) % std::uint64_t(p_));
    for (const int r : std::array{1, p_ / 2, p_ - 1, any})
      if (!is_same(r)) return false;
    return true;
  }

  bool is_sound(const transfer& t) {
    for (const peer_range& peers : {t.to, t.from})
      if (!peers.is_sound(p_)) return fail(fault::bad_peer);
    if (t.to.index_of(0, p_) != nobody || t.from.index_of(0, p_) != nobody) return give_up();
    for (const block_range& range : {t.send, t.receive})
      if (range.count < 0 || range.run < 1) return fail(fault::bad_block);
    if (t.from.count == 0 || t.then == arrival::replace) return true;
    if (!reduces(s_.collective)) return fail(fault::no_operator, t.receive.first);
    if (t.receive.per_peer != 0) return fail(fault::combines_apart, t.receive.first);
    return (t.from.count == 1 && t.then != arrival::in_rank_order) || give_up();
  }

  /// A message to rank d must match one transfer there: the one that receives from rank -d here.
  bool depart(const transfer& t) {
    for (int i = 0; i < t.to.count; ++i) {
      int received = 0;
      for (const transfer& u : now_) received += u.from.index_of(mod(-t.to.at(i, p_), p_), p_) != nobody ? 1 : 0;
      if (received != 1) return fail(received == 0 ? fault::unmatched_send : fault::two_messages, t.send.first);
    }
    const int different_peers = t.send.per_peer == 0 && t.to.count > 0 ? 1 : t.to.count;
    for (int peer = 0; peer < different_peers; ++peer)
      for (int i = 0; i < t.send.count; ++i) {
        const int b = at(t.send, i, peer);
        if (!exists(b)) return fail(fault::bad_block, b);
        if (held_[index(b)].tree < 0) return fail(fault::sends_nothing, b);
        int& mark = sent_[index(b)];  // round and transfer that send the block; `capacity` for two transfers
        const int mine = round_ * (step::capacity + 1) + now_.index_of(t);
        mark = mark / (step::capacity + 1) == round_ && mark >= 0 && mark != mine
                   ? round_ * (step::capacity + 1) + step::capacity
                   : mine;
      }
    return true;
  }

  bool arrive(const transfer& t) {
    for (int i = 0; i < t.from.count; ++i)
      if (!take_from(t, i)) return false;
    return true;
  }
  bool take_from(const transfer& t, int peer) {
    const int s = t.from.at(peer, p_), me = mod(-s, p_);
    const transfer* message = nullptr;
    for (const transfer& u : now_)
      if (u.to.index_of(me, p_) != nobody) {
        if (message != nullptr) return fail(fault::two_messages, t.receive.first);
        message = &u;
      }
    if (message == nullptr) return fail(fault::unmatched_receive, t.receive.first);
    if (message->send.count != t.receive.count) return fail(fault::different_lengths, t.receive.first);
    const int i_am = message->to.index_of(me, p_);
    for (int i = 0; i < t.receive.count; ++i) {
      const int here = at(t.receive, i, peer), there = at(message->send, i, i_am);
      if (!exists(here)) return fail(fault::bad_block, here);
      if ((s_.blocks == p_ ? mod(there + s, p_) : there) != here) return fail(fault::different_blocks, here);
      if (!is_separate(here, t)) return fail(fault::read_while_written, here);
      if (!take(here, moved(held_[index(there)], s), t.then)) return false;
    }
    return true;
  }
  bool is_separate(int b, const transfer& t) const {
    const int mark = sent_[index(b)];
    if (mark < 0 || mark / (step::capacity + 1) != round_ || is_heard()) return true;
    return mark % (step::capacity + 1) == now_.index_of(t) && t.send == t.receive && t.receive.per_peer == 0;
  }

  bool take(int b, value theirs, arrival then) {
    const bool again = written_[index(b)] == round_;
    if (again && !is_heard()) return fail(fault::written_twice, b);
    if (!again) touched_.push_back(b);
    written_[index(b)] = round_;
    value& next = next_[index(b)];
    const value mine = again ? next : held_[index(b)];
    if (then == arrival::replace && !is_heard()) return next = theirs, true;
    if (mine.tree < 0) return fail(fault::combines_with_nothing, b);
    const std::int64_t leaves = trees_[index(mine.tree)].leaves + trees_[index(theirs.tree)].leaves;
    if (!is_heard() && leaves > p_) return fail(fault::counted_twice, b);
    if (!is_heard() && round_ >= s_.reduce_rounds) return fail(fault::combined_late, b);
    next = {int(trees_.size()), 0};
    trees_.push_back({mine, theirs, leaves});
    return true;
  }

  bool examine() {
    int proven = -1;
    for (int b = 0; b < s_.blocks; ++b) {
      if (!required_after(s_.collective, 0, b, s_.blocks, p_)) continue;
      const value v = held_[index(b)];
      if (v.tree < 0) return fail(fault::missing, b);
      if (s_.collective == kind::allgather) {
        if (v.tree != 0 || v.moved != b) return fail(fault::not_promised, b);
        continue;
      }
      if (v.tree != proven && !has_all(v.tree, b)) return false;
      proven = v.tree;
      // Rank r holds in block b what rank 0 holds in block b - r, moved by r: one tree, if all of rank 0's are.
      if (s_.collective == kind::allreduce &&
          (v.tree != held_[0].tree || v.moved != mod(held_[0].moved + b, p_) || s_.blocks != p_))
        return give_up();
    }
    return true;
  }

  /// Whether the tree has every rank's contribution, and only once unless in a barrier.
  bool has_all(int tree, int b) {
    std::vector<bool> is_in(static_cast<std::size_t>(p_));
    std::vector<value> left{{tree, 0}};
    std::int64_t different = 0, steps = 0;
    while (!left.empty()) {
      const value v = left.back();
      left.pop_back();
      if (++steps > std::int64_t{64} * p_) return give_up();
      if (v.tree > 0) {
        const combination& c = trees_[index(v.tree)];
        left.push_back(moved(c.left, v.moved)), left.push_back(moved(c.right, v.moved));
      } else if (!is_in[index(v.moved)]) {
        is_in[index(v.moved)] = true, ++different;
      } else if (!is_heard()) {
        return fail(fault::counted_twice, b);
      }
    }
    return different == p_ || fail(fault::missing, b);
  }

  const erased_schedule& s_;
  int p_, round_ = 0;
  bool is_decided_ = true;
  std::vector<value> held_, next_;
  std::vector<int> sent_, written_, touched_{};
  std::vector<combination> trees_{1};
  step now_{};
  verdict found_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule

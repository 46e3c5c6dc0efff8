// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The proof of a schedule: it is executed with symbols instead of numbers, on all ranks, round by round.
#pragma once

#include <kolo/schedule/erased_schedule.hpp>
#include <kolo/schedule/expressions.hpp>
#include <kolo/schedule/relative.hpp>
#include <kolo/schedule/semantics.hpp>
#include <kolo/schedule/verdict.hpp>

#include <cstddef>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// One execution. Every block of every rank is a cell that is empty or holds a symbol: with an operator, the number of
/// an expression; in a barrier too (of the ranks that are known to have arrived); in an alltoall, source * p +
/// destination; otherwise the rank that the block comes from. The number of the block is not stored, since blocks move
/// to blocks of the same number only.
class prover {
 public:
  constexpr explicit prover(const erased_schedule& s)
      : s_{s},
        kind_{s.collective},
        is_ordered_{s.ordered || kind_ == kind::scan || kind_ == kind::exclusive_scan},
        p_{s.size},
        blocks_{s.blocks},
        numbered_{blocks_ * block_sets(kind_)},
        all_{numbered_ + s.scratch},
        held_{std::ptrdiff_t{p_} * all_, nothing},
        next_{std::ptrdiff_t{p_} * all_, nothing},
        sent_{std::ptrdiff_t{p_} * all_, 0},
        written_{std::ptrdiff_t{p_} * all_, 0},
        steps_{p_, step{}},
        known_{p_} {
    found_.collective = kind_;
    found_.size = p_;
    for (int r = 0; r < p_; ++r)
      for (int b = 0; b < blocks_; ++b)
        if (held_before(kind_, r, b, blocks_, p_, s_.root)) held_[cell(r, b)] = symbol(r, b);
  }

  constexpr verdict run() {
    for (round_ = 0; round_ < s_.rounds; ++round_)
      if (!play()) return found_;
    round_ = -1;
    examine();
    return found_;
  }

  /// After a run without a fault: what rank r holds in block b, as the number of an expression.
  constexpr int result(int r, int b) const { return held_[cell(r, b)]; }
  constexpr const expressions& known() const { return known_; }
  /// Whether a message carried more than one rank's contribution, and fewer than all of them.
  constexpr bool sends_partial_results() const { return sends_partial_results_; }

 private:
  static constexpr int nothing = -1;

  constexpr bool fail(fault what, int rank, int block = -1) {
    found_.what = what;
    found_.rank = rank;
    found_.round = round_;
    found_.block = block;
    return false;
  }

  constexpr std::ptrdiff_t cell(int r, int b) const { return std::ptrdiff_t{r} * all_ + b; }
  constexpr bool exists(int b) const { return b >= 0 && b < all_; }
  constexpr int at(const block_range& range, int i, int peer) const {
    return block_at(range, i, peer, blocks_, block_sets(kind_));
  }
  /// The content of block b of rank r at the start.
  constexpr int symbol(int r, int b) const {
    if (kind_ == kind::alltoall) return r * p_ + b;
    return reduces(kind_) || kind_ == kind::barrier || kind_ == kind::permutation ? r : source(b);
  }
  constexpr int source(int b) const {
    return kind_ == kind::allgather || kind_ == kind::gather ? owner(b, blocks_, p_) : 0;
  }

  constexpr bool play() {
    for (int r = 0; r < p_; ++r) steps_[r] = s_.at(r, round_);
    for (int r = 0; r < p_; ++r)
      for (const transfer& t : steps_[r])
        if (!is_sound(r, t)) return false;
    for (int r = 0; s_.relative && r < p_; ++r)
      if (!is_moved(steps_[0], steps_[r], r, p_, blocks_, block_sets(kind_))) return fail(fault::not_relative, r);
    for (int r = 0; r < p_; ++r)
      for (const transfer& t : steps_[r])
        if (!depart(r, t)) return false;
    groups_before_ = group_;
    for (int r = 0; r < p_; ++r)
      for (const transfer& t : steps_[r])
        if (!arrive(r, t)) return false;
    for (std::ptrdiff_t i = 0; i < touched_.size(); ++i) held_[touched_[i]] = next_[touched_[i]];
    touched_.clear();
    return true;
  }

  constexpr bool is_sound(int r, const transfer& t) {
    for (const peer_range& peers : {t.to, t.from})
      if (!peers.is_sound(p_)) return fail(fault::bad_peer, r);
    if ((is_with(t.to, r) || is_with(t.from, r)) &&
        !(t.to.count == 1 && t.from.count == 1 && t.to.first == t.from.first))
      return fail(fault::bad_peer, r);
    for (const block_range& range : {t.send, t.receive})
      if (range.count < 0 || range.run < 1) return fail(fault::bad_block, r);
    if (t.from.count > 0 && t.then != arrival::replace && t.receive.per_peer != 0)
      return fail(fault::combines_apart, r, t.receive.first);
    return true;
  }
  constexpr bool is_with(const peer_range& peers, int r) const { return peers.index_of(r, p_) != nobody; }

  /// Checks that everything rank r sends is received, and that the blocks it sends hold something.
  constexpr bool depart(int r, const transfer& t) {
    for (int i = 0; i < t.to.count; ++i) {
      int received = 0;
      for (const transfer& u : steps_[t.to.at(i, p_)]) received += is_with(u.from, r) ? 1 : 0;
      if (received != 1) return fail(received == 0 ? fault::unmatched_send : fault::two_messages, r, t.send.first);
    }
    const int index = steps_[r].index_of(t);
    const int different_peers = t.send.per_peer == 0 && t.to.count > 0 ? 1 : t.to.count;
    for (int peer = 0; peer < different_peers; ++peer)
      for (int i = 0; i < t.send.count; ++i) {
        const int b = at(t.send, i, peer);
        if (!exists(b)) return fail(fault::bad_block, r, b);
        if (held_[cell(r, b)] == nothing) return fail(fault::sends_nothing, r, b);
        int& mark = sent_[cell(r, b)];
        if (mark >> step::capacity != round_ + 1) mark = (round_ + 1) << step::capacity;
        mark |= 1 << index;
      }
    return true;
  }

  /// The messages of one transfer form a group, and are applied in the order of the ranks.
  constexpr bool arrive(int r, const transfer& t) {
    if (t.from.count == 0) return true;
    ++group_;
    known_.begin_pass(round_ == s_.reduce_rounds - 1);
    int peer = t.from.lowest(p_);
    bool has_own = t.then == arrival::replace;
    for (int m = 0; m < t.from.count; ++m, peer = peer + 1 < t.from.count ? peer + 1 : 0) {
      const bool own_is_next =
          t.then == arrival::mine_first || (t.then == arrival::in_rank_order && t.from.at(peer, p_) > r);
      if (!has_own && own_is_next) {
        if (!append_own(r, t)) return false;
        has_own = true;
      }
      if (!append_received(r, t, peer)) return false;
    }
    return has_own || append_own(r, t);
  }

  constexpr bool append_own(int r, const transfer& t) {
    for (int i = 0; i < t.receive.count; ++i) {
      const int b = at(t.receive, i, 0);
      if (!exists(b)) return fail(fault::bad_block, r, b);
      const int mine = held_[cell(r, b)];
      if (mine == nothing) return fail(fault::combines_with_nothing, r, b);
      if (!take(r, b, mine, t.then)) return false;
    }
    return true;
  }

  constexpr bool append_received(int r, const transfer& t, int peer) {
    const int s = t.from.at(peer, p_);
    const transfer* message = nullptr;
    for (const transfer& u : steps_[s])
      if (is_with(u.to, r)) {
        if (message != nullptr) return fail(fault::two_messages, r, t.receive.first);
        message = &u;
      }
    if (message == nullptr) return fail(fault::unmatched_receive, r, t.receive.first);
    if (message->send.count != t.receive.count) return fail(fault::different_lengths, r, t.receive.first);
    const int me = message->to.index_of(r, p_);
    for (int i = 0; i < t.receive.count; ++i) {
      const int here = at(t.receive, i, peer), there = at(message->send, i, me);
      if (!exists(here)) return fail(fault::bad_block, r, here);
      if (!is_same(s, there, r, here)) return fail(fault::different_blocks, r, here);
      if (!is_separate(r, here, t)) return fail(fault::read_while_written, r, here);
      const int theirs = held_[cell(s, there)];
      if (reduces(kind_) && theirs >= p_ && !known_.holds_first(theirs, p_)) sends_partial_results_ = true;
      if (!take(r, here, theirs, t.then)) return false;
    }
    return true;
  }

  /// Whether block `there` of rank s and block `here` of rank r are the same part of the vector.
  constexpr bool is_same(int s, int there, int r, int here) const {
    if (kind_ != kind::alltoall) return original_block(there) == original_block(here);
    if (there >= numbered_ || here >= numbered_) return true;
    const int sent = there < blocks_ ? s * p_ + there : (there - blocks_) * p_ + s;
    const int received = here < blocks_ ? r * p_ + here : (here - blocks_) * p_ + r;
    return sent == received;
  }
  constexpr int original_block(int b) const { return (b < numbered_ ? b : b - numbered_) % blocks_; }

  constexpr bool is_separate(int r, int b, const transfer& t) const {
    const int mark = sent_[cell(r, b)];
    if (mark >> step::capacity != round_ + 1 || kind_ == kind::barrier) return true;
    const int index = steps_[r].index_of(t);
    const bool only_here = mark % (1 << step::capacity) == 1 << index;
    return only_here && t.send == t.receive && t.receive.per_peer == 0;
  }

  /// Puts `what` into block b of rank r, on the right of what the same group has put there.
  constexpr bool take(int r, int b, int what, arrival then) {
    const std::ptrdiff_t c = cell(r, b);
    const bool again = written_[c] == group_, heard = kind_ == kind::barrier;
    if (then != arrival::replace && !reduces(kind_)) return fail(fault::no_operator, r, b);
    if (written_[c] > groups_before_ && !heard && (!again || then == arrival::replace))
      return fail(fault::written_twice, r, b);
    if (written_[c] <= groups_before_) touched_.push_back(c);
    if (heard) {
      next_[c] = known_.combine(written_[c] <= groups_before_ ? held_[c] : next_[c], what);
    } else if (again) {
      if (known_.overlap(next_[c], what)) return fail(fault::counted_twice, r, b);
      if (is_ordered_ && !known_.in_order(next_[c], what)) return fail(fault::order, r, b);
      if (round_ >= s_.reduce_rounds) return fail(fault::combined_late, r, b);
      next_[c] = known_.combine(next_[c], what);
    } else {
      next_[c] = what;
    }
    written_[c] = group_;
    return true;
  }

  /// Checks that every rank holds what the collective requires at the end.
  constexpr bool examine() {
    for (int r = 0; r < p_; ++r)
      for (int b = 0; b < numbered_; ++b)
        if (required_after(kind_, r, b, blocks_, p_, s_.root) && !is_kept(r, b)) return false;
    return true;
  }

  constexpr bool is_kept(int r, int b) {
    const int it = held_[cell(r, b)];
    if (it == nothing) return fail(fault::missing, r, b);
    if (kind_ == kind::alltoall) return it == (b - blocks_) * p_ + r || fail(fault::not_promised, r, b);
    if (kind_ == kind::permutation) return is_permuted(r, b, it);
    if (!reduces(kind_) && kind_ != kind::barrier) return it == source(b) || fail(fault::not_promised, r, b);
    const int ranks = kind_ == kind::scan ? r + 1 : kind_ == kind::exclusive_scan ? r : p_;
    if (!known_.holds_first(it, ranks)) return fail(fault::missing, r, b);
    if (known_.last(it) >= ranks) return fail(fault::not_promised, r, b);
    if (kind_ == kind::allreduce && known_.hash(it) != known_.hash(held_[cell(0, b)])) return fail(fault::drift, r, b);
    return true;
  }

  /// Checks that `it` is the rank whose block belongs here, and that no lower rank holds it as well.
  constexpr bool is_permuted(int r, int b, int it) {
    if (const int declared = s_.source(r); declared != nobody && declared != it) return fail(fault::not_promised, r, b);
    for (int before = 0; before < r; ++before)
      if (held_[cell(before, b)] == it) return fail(fault::counted_twice, r, b);
    return true;
  }

  const erased_schedule& s_;
  kind kind_;
  bool is_ordered_;
  int p_, blocks_, numbered_, all_;
  row<int> held_, next_;  // content of every cell before and after this round
  row<int> sent_;         // round + 1 and, in the lowest bits, the transfers that send the cell
  row<int> written_;      // the last group of messages that wrote the cell
  row<std::ptrdiff_t> touched_{};
  row<step> steps_;
  expressions known_;
  int round_ = 0, group_ = 0, groups_before_ = 0;
  bool sends_partial_results_ = false;
  verdict found_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule over a wire made of slots, round by round: packs straight into a slot, reduces straight out of it.
#pragma once

#include <kolo/execute/agreement.hpp>
#include <kolo/execute/worksheet.hpp>

namespace kolo::inline v0::detail {

/// A state machine over piece, round and the streams of a round; `advance` does what can be done without waiting.
template <Slotted T>
class rounds_run : agreeing<T> {
 public:
  using agreeing<T>::agreeing;

  advanced go_on() {
    if (!started_) {
      begin();
      begin_round();
    }
    bool moved = false;
    for (;;) {
      bool done = true;
      moved |= send_some(done);
      moved |= receive_some(done);
      if (!done) {
        if (!moved) this->look_around();
        return moved ? advanced::moved : advanced::stuck;
      }
      moved = true;
      end_round();
      if (++now().round < rounds_) {
        begin_round();
        continue;
      }
      sheet_.end_piece();
      if (!sheet_.next_piece()) return advanced::finished;
      now().round = 0;
      begin_round();
    }
  }

 private:
  struct outgoing {
    const transfer* what;
    int index, peer;  ///< which of the transfer's peers, and who that is
    cursor at;
  };
  struct incoming {
    const transfer* what;
    int index, peer;  ///< of the first, where a message of each peer is combined in one pass
    bool together;
    cursor at;
  };

  using agreeing<T>::wire, agreeing<T>::now, agreeing<T>::tag, agreeing<T>::job_, agreeing<T>::engine_, agreeing<T>::look;

  std::size_t elements_per_slot() { return wire().slot_bytes() / job_.compute.wire_bytes; }

  void begin() {
    started_ = true;
    now().round = 0;
    rounds_ = job_.schedule.rounds;
    const int rank = wire().rank(), size = wire().size();
    const auto peers = static_cast<std::size_t>(size);
    const auto streams = static_cast<std::size_t>(step::capacity) * peers;
    const auto need = worksheet<>::bytes_needed(job_, rank, size, wire().slot_bytes());
    const auto bytes = need.books + streams * (sizeof(outgoing) + sizeof(incoming)) + (peers + 1) * sizeof(source);
    auto* books = engine_.books.at_least(bytes);
    sheet_.begin(job_, rank, size, wire().slot_bytes(), books, engine_.blocks.at_least(need.blocks), {});
    outgoing_ = reinterpret_cast<outgoing*>(books + need.books);
    incoming_ = reinterpret_cast<incoming*>(outgoing_ + streams);
    sources_ = reinterpret_cast<source*>(incoming_ + streams);
  }

  void begin_round() {
    step_ = sheet_.at(now().round);
    sending_ = receiving_ = 0;
    const bool complete = now().round >= job_.schedule.reduce_rounds;
    for (const transfer& t : step_) {
      if (complete && t.to.count > 0) sheet_.finish_before_sending(t.send, t.to.count);
      if (is_local(t)) {
        sheet_.combine_locally(t, finishes_now());
        continue;
      }
      sheet_.begin_sending(t.send, t.to.count);
      for (int i = 0; i < t.to.count; ++i) {
        const auto at = sheet_.start(t.send, i);
        if (at.left > 0) outgoing_[sending_++] = {&t, i, sheet_.real(t.to.at(i, sheet_.size())), at};
      }
      const bool together = t.then != arrival::replace && t.from.count > 1;
      for (int i = 0; i < (together ? 1 : t.from.count); ++i) {
        const auto at = sheet_.start(t.receive, i);
        if (at.left > 0) incoming_[receiving_++] = {&t, i, sheet_.real(t.from.at(i, sheet_.size())), together, at};
      }
    }
  }

  void end_round() {
    const bool complete = now().round >= job_.schedule.reduce_rounds;
    for (const transfer& t : step_)
      if (!is_local(t)) sheet_.end_sending(t.send, t.to.count);
    for (const transfer& t : step_) sheet_.end_receiving(t.receive, t.from.count, complete || (t.then != arrival::replace && finishes_now()));
  }

  /// In the last round in which anything is combined, what is combined is complete.
  bool finishes_now() { return now().round == job_.schedule.reduce_rounds - 1; }
  bool is_local(const transfer& t) const { return t.to.count == 1 && t.to.first == sheet_.virtual_rank(); }

  bool send_some(bool& done) {
    bool moved = false;
    for (int i = 0; i < sending_; ++i) {
      auto& o = outgoing_[i];
      while (o.at.left > 0) {
        auto* to = wire().reserve(o.peer);
        if (!to) {
          now().peer = o.peer;
          done = false;
          break;
        }
        const auto n = std::min(o.at.left, elements_per_slot());
        sheet_.pack(o.at, o.what->send, o.index, n, to);
        wire().commit(o.peer, n * job_.compute.wire_bytes, tag());
        moved = true;
      }
    }
    return moved;
  }

  bool receive_some(bool& done) {
    bool moved = false;
    for (int i = 0; i < receiving_; ++i) {
      auto& in = incoming_[i];
      while (in.at.left > 0) {
        const auto n = std::min(in.at.left, elements_per_slot());
        if (!may_write(in, in.at.left - n) || !(in.together ? take_together(in, n) : take(in, n))) {
          done = false;
          break;
        }
        moved = true;
      }
    }
    return moved;
  }

  /// Elements that are also sent in this round (as part of the same range) must have been sent before they are overwritten.
  bool may_write(const incoming& in, std::size_t left) const {
    for (int i = 0; i < sending_; ++i)
      if (outgoing_[i].at.left > left && outgoing_[i].what->send == in.what->receive) return false;
    return true;
  }

  bool take(incoming& in, std::size_t n) {
    const arrived a = look(in.peer, n);
    if (!a.data) return false;
    if (in.what->then == arrival::replace) {
      sheet_.replace(in.at, in.what->receive, in.index, n, a.data);
    } else {
      source both[2];
      arrange_sources(in.what->from, in.what->then, sheet_.virtual_rank(), sheet_.size(), both, [&](int) { return a.data; });
      sheet_.combine(in.at, in.what->receive, n, both, 2, finishes_now());
    }
    wire().release(in.peer);
    return true;
  }

  /// One pass over what all peers of the transfer have sent, and over this rank's own.
  bool take_together(incoming& in, std::size_t n) {
    const auto& from = in.what->from;
    const auto peer = [&](int i) { return sheet_.real(from.at(i, sheet_.size())); };
    for (int i = 0; i < from.count; ++i)
      if (!look(peer(i), n).data) return false;
    arrange_sources(from, in.what->then, sheet_.virtual_rank(), sheet_.size(), sources_, [&](int i) { return wire().peek(peer(i)).data; });
    sheet_.combine(in.at, in.what->receive, n, sources_, from.count + 1, finishes_now());
    for (int i = 0; i < from.count; ++i) wire().release(peer(i));
    return true;
  }

  worksheet<> sheet_{};
  step step_{};
  outgoing* outgoing_ = nullptr;
  incoming* incoming_ = nullptr;
  source* sources_ = nullptr;
  int sending_ = 0, receiving_ = 0, rounds_ = 0;
  bool started_ = false;
};

}  // namespace kolo::inline v0::detail

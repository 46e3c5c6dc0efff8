// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule over a transport of slots, round by round: packs straight into a slot, reduces straight out of it.
#pragma once

#include <kolo/execute/block_state.hpp>
#include <kolo/execute/mismatch.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// A state machine over piece, round and the streams of a round; `advance` does the work that needs no waiting.
///
/// In a round each transfer of the step has a stream of elements to or from each of its peers. A stream that is longer
/// than a slot takes several slots, one after the other. `send_some` fills slots while there are free ones,
/// `receive_some` reads the pieces that are there; a stream with a late peer holds up no other stream. When all streams
/// of the round have ended, the next round begins; after the last round, the next piece (see block_state).
template <SlotTransport T>
class rounds_run final : public driver, mismatch_checker<T> {
 public:
  rounds_run(engine<T>& e, const collective_args& args, operation& o) : mismatch_checker<T>{e, args, o} {
    now().round = 0;
    const int rank = transport().rank(), size = transport().size();
    const auto peers = std::size_t(size);
    const auto streams = std::size_t(step::capacity) * peers;
    const auto need = block_state<>::bytes_needed(args, rank, size, transport().slot_bytes());
    const auto bytes = need.state_memory + 2 * streams * sizeof(stream) + (peers + 1) * sizeof(source);
    auto* state = e.current_scratch->state.at_least(bytes);
    blocks_.begin(args, rank, size, transport().slot_bytes(), state, e.current_scratch->blocks.at_least(need.blocks),
                  {});
    outgoing_ = reinterpret_cast<stream*>(state + need.state_memory);
    incoming_ = outgoing_ + streams;
    sources_ = reinterpret_cast<source*>(incoming_ + streams);
    begin_round();
  }

  advanced go_on() override {
    bool moved = false;
    for (;;) {
      bool done = true;
      moved |= send_some(done);
      moved |= receive_some(done);
      if (!done) {
        if (!moved) this->check_strays();
        return moved ? advanced::moved : advanced::stuck;
      }
      moved = true;
      blocks_.end_round(step_, now().round);
      if (++now().round < args_.schedule.rounds) {
        begin_round();
        continue;
      }
      blocks_.end_piece();
      if (!blocks_.next_piece()) return advanced::finished;
      now().round = 0;
      begin_round();
    }
  }

 private:
  struct stream {
    const transfer* what;
    int index, peer;  ///< index among the transfer's peers, and the peer's rank; of the first, if all are combined
    cursor at;
  };

  using mismatch_checker<T>::transport, mismatch_checker<T>::now, mismatch_checker<T>::tag, mismatch_checker<T>::args_,
      mismatch_checker<T>::poll;

  std::size_t elements_per_slot() { return transport().slot_bytes() / args_.compute.wire_bytes; }

  void begin_round() {
    step_ = blocks_.at(now().round);
    sending_ = receiving_ = 0;
    blocks_.begin_round(step_, now().round, [this](const transfer& t) {
      for (int i = 0; i < t.to.count; ++i) {
        const auto at = blocks_.start(t.send, i);
        if (at.left > 0) outgoing_[sending_++] = {&t, i, blocks_.real(t.to.at(i, blocks_.size())), at};
      }
      for (int i = 0; i < (t.then == arrival::replace ? t.from.count : std::min(t.from.count, 1)); ++i) {
        const auto at = blocks_.start(t.receive, i);
        if (at.left > 0) incoming_[receiving_++] = {&t, i, blocks_.real(t.from.at(i, blocks_.size())), at};
      }
    });
  }

  bool send_some(bool& done) {
    bool moved = false;
    for (int i = 0; i < sending_; ++i) {
      auto& o = outgoing_[i];
      while (o.at.left > 0) {
        const auto n = std::min(o.at.left, elements_per_slot());
        const auto bytes = n * args_.compute.wire_bytes;
        auto* to = transport::reserve(transport(), o.peer, bytes);
        if (!to) {
          now().peer = o.peer;
          done = false;
          break;
        }
        blocks_.pack(o.at, o.what->send, o.index, n, to);
        transport().commit(o.peer, bytes, tag());
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
        if (!may_write(in, in.at.left - n) || !(in.what->then == arrival::replace ? replace(in, n) : combine(in, n))) {
          done = false;
          break;
        }
        moved = true;
      }
    }
    return moved;
  }

  /// Elements that are also sent in this round (as part of the same range) must have been sent before they are
  /// overwritten.
  bool may_write(const stream& in, std::size_t left) const {
    for (int i = 0; i < sending_; ++i)
      if (outgoing_[i].at.left > left && outgoing_[i].what->send == in.what->receive) return false;
    return true;
  }

  bool replace(stream& in, std::size_t n) {
    const received_slot a = poll(in.peer, n);
    if (!a.data) return false;
    blocks_.replace(in.at, in.what->receive, in.index, n, a.data);
    transport().release(in.peer);
    return true;
  }

  /// One pass over the data of all peers of the transfer, and over this rank's own.
  bool combine(stream& in, std::size_t n) {
    const auto& from = in.what->from;
    const auto peer = [&](int i) { return blocks_.real(from.at(i, blocks_.size())); };
    for (int i = 0; i < from.count; ++i)
      if (!poll(peer(i), n).data) return false;
    arrange_sources(from, in.what->then, blocks_.virtual_rank(), blocks_.size(), sources_,
                    [&](int i) { return transport().peek(peer(i)).data; });
    blocks_.combine(in.at, in.what->receive, n, sources_, from.count + 1, blocks_.completes(now().round));
    for (int i = 0; i < from.count; ++i) transport().release(peer(i));
    return true;
  }

  block_state<> blocks_{};
  step step_{};
  stream *outgoing_ = nullptr, *incoming_ = nullptr;
  source* sources_ = nullptr;
  int sending_ = 0, receiving_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

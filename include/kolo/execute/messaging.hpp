// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule over a wire that carries messages: a round is posted together, awaited, and then combined.
#pragma once

#include <kolo/execute/worksheet.hpp>
#include <kolo/transport/communicator.hpp>

namespace kolo::inline v0::detail {

/// A state machine over piece and round. What lies contiguously and travels as it is goes straight from and to its place; the
/// rest is staged. Staging belongs to the communicator, so a message that is still under way after a failure has a place to go.
template <Messaging T>
class messaging_run : public operation {
 public:
  messaging_run(engine<T>& e, const problem& job) : engine_{e}, job_{job} {
    advance = [](operation& o) { return static_cast<messaging_run&>(o).go_on(); };
  }

  typename T::options options{};  ///< of this call

  /// Runs it from the start; the communicator's earlier operations come first.
  void restart() { started_ = false; }

 private:
  using sheet = worksheet<hands_for<T>>;

  struct message {
    typename T::ticket ticket;
    const transfer* what;
    int index, peer;
    cursor at;
    std::byte* staged;  ///< null: it goes straight to or from its place
    bool incoming, done;
  };

  T& wire() { return engine_.transport; }

  advanced go_on() {
    if (!started_) {
      if (job_.schedule.rounds == 0) return keep_own(job_, hands_of(wire())), advanced::finished;
      begin();
      post_round();
    }
    bool moved = false;
    for (;;) {
      for (int i = 0; i < messages_; ++i) {
        auto& m = message_[i];
        if (!m.done && !(m.done = wire().done(m.ticket))) {
          now.peer = m.peer;
          return moved ? advanced::moved : advanced::stuck;
        }
      }
      moved = true;
      end_round();
      if (++now.round == rounds_) {
        sheet_.end_piece();
        if (!sheet_.next_piece()) return advanced::finished;
        now.round = 0;
      }
      post_round();
    }
  }

  void begin() {
    started_ = true;
    if constexpr (requires { wire().begin(options); }) wire().begin(options);
    now.round = 0;
    rounds_ = job_.schedule.rounds;
    const int rank = wire().rank(), size = wire().size();
    const auto streams = 2 * static_cast<std::size_t>(step::capacity) * static_cast<std::size_t>(size);
    const auto need = sheet::bytes_needed(job_, rank, size, wire().piece_bytes());
    const auto hands = hands_of(wire());
    auto* books = engine_.books.at_least(need.books + streams * sizeof(message) + (static_cast<std::size_t>(size) + 1) * sizeof(source));
    sheet_.begin(job_, rank, size, wire().piece_bytes(), books, engine_.blocks.at_least(need.blocks, hands), hands);
    message_ = reinterpret_cast<message*>(books + need.books);
    sources_ = reinterpret_cast<source*>(message_ + streams);
  }

  void post_round() {
    step_ = sheet_.at(now.round);
    messages_ = 0;
    const bool complete = now.round >= job_.schedule.reduce_rounds;
    for (const transfer& t : step_) {
      if (complete && t.to.count > 0) sheet_.finish_before_sending(t.send, t.to.count);
      if (is_local(t)) {
        sheet_.combine_locally(t, finishes_now());
        continue;
      }
      sheet_.begin_sending(t.send, t.to.count);
      first_of_[&t - step_.begin()] = messages_;
      for (int i = 0; i < t.from.count; ++i) add(t, i, true);
      for (int i = 0; i < t.to.count; ++i) add(t, i, false);
    }
    std::size_t bytes = 0;
    for (int i = 0; i < messages_; ++i)
      if (!(message_[i].staged = straight(message_[i]))) bytes += staged_bytes(message_[i]);
    auto* staging = engine_.staging.at_least(bytes, hands_of(wire()));
    for (int i = 0; i < messages_; ++i) {
      auto& m = message_[i];
      const auto length = m.at.left * job_.compute.wire_bytes;
      auto* place = m.staged;
      if (place) m.staged = nullptr;
      else place = m.staged = std::exchange(staging, staging + staged_bytes(m));
      if (m.incoming) {
        m.ticket = wire().receive(m.peer, place, length, tag());
      } else {
        if (m.staged) sheet_.pack(m.at, m.what->send, m.index, m.at.left, place);
        m.ticket = wire().send(m.peer, place, length, tag());
      }
    }
    wire().submit();
  }

  void add(const transfer& t, int index, bool incoming) {
    const auto at = sheet_.start(incoming ? t.receive : t.send, index);
    const int peer = sheet_.real((incoming ? t.from : t.to).at(index, sheet_.size()));
    if (at.left > 0) std::construct_at(&message_[messages_++], message{{}, &t, index, peer, at, nullptr, incoming, false});
  }

  std::size_t staged_bytes(const message& m) const { return (m.at.left * job_.compute.wire_bytes + 63) / 64 * 64; }

  /// Where the message may lie without staging; null: nowhere. What is sent and received in one round is staged on arrival.
  std::byte* straight(const message& m) {
    const auto& range = m.incoming ? m.what->receive : m.what->send;
    if (job_.compute.to_wire || (m.incoming && (m.what->then != arrival::replace || m.what->send == m.what->receive))) return nullptr;
    std::byte *begin = nullptr, *end = nullptr;
    bool contiguous = true;
    cursor at = m.at;
    sheet_.advance(at, range, m.index, at.left, [&](int b, std::size_t offset, std::size_t count) {
      for_each_run(m.incoming ? sheet_.home(b, offset) : sheet_.current(b, offset), count, [&](std::byte* data, std::size_t, std::size_t n) {
        contiguous = contiguous && (!begin || data == end);
        if (!begin) begin = data;
        end = data + n * job_.compute.element_bytes;
      });
    });
    return contiguous ? begin : nullptr;
  }

  void end_round() {
    const bool complete = now.round >= job_.schedule.reduce_rounds;
    for (const transfer& t : step_) {
      if (is_local(t)) continue;
      if (t.then == arrival::replace) {
        for (int i = 0; i < messages_; ++i) {
          auto& m = message_[i];
          if (m.what == &t && m.incoming && m.staged) sheet_.replace(m.at, t.receive, m.index, m.at.left, m.staged);
        }
      } else {
        combine(t);
      }
    }
    for (const transfer& t : step_)
      if (!is_local(t)) sheet_.end_sending(t.send, t.to.count);
    for (const transfer& t : step_) sheet_.end_receiving(t.receive, t.from.count, complete || (t.then != arrival::replace && finishes_now()));
  }

  /// One pass over what all peers of the transfer have sent, and over this rank's own.
  void combine(const transfer& t) {
    cursor at = sheet_.start(t.receive, 0);
    if (at.left == 0) return;
    const message* const first = message_ + first_of_[&t - step_.begin()];  // each peer's, as long as the first
    arrange_sources(t.from, t.then, sheet_.virtual_rank(), sheet_.size(), sources_, [&](int i) { return first[i].staged; });
    sheet_.combine(at, t.receive, at.left, sources_, t.from.count + 1, finishes_now());
  }

  std::uint64_t tag() const { return now.sequence << 32 | job_.fingerprint; }
  bool finishes_now() const { return now.round == job_.schedule.reduce_rounds - 1; }
  bool is_local(const transfer& t) const { return t.to.count == 1 && t.to.first == sheet_.virtual_rank(); }

  engine<T>& engine_;
  const problem& job_;
  sheet sheet_{};
  step step_{};
  message* message_ = nullptr;
  source* sources_ = nullptr;
  int first_of_[step::capacity]{};  ///< where the messages of each transfer begin
  int messages_ = 0, rounds_ = 0;
  bool started_ = false;
};

}  // namespace kolo::inline v0::detail

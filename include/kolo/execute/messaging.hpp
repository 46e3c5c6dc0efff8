// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule over a wire that carries messages: a round is posted together, awaited, and then combined.
#pragma once

#include <kolo/execute/stand_in.hpp>
#include <kolo/execute/worksheet.hpp>
#include <kolo/transport/communicator.hpp>

#include <optional>
#include <string>

namespace kolo::inline v0::detail {

/// A wire that keeps what is put on its stream: `repeat(recording, put)` calls put(), or does what that did before. Tickets are done at once there. Where it
/// returns a ticket, that is waited for, and what the transport does natively is not kept.
template <class T>
concept Recorder = Messaging<T> && requires { typename T::recording; };
template <class T>
struct kept_work {};
template <Recorder T>
struct kept_work<T> {
  explicit kept_work(const T& wire) : recording{wire} {}
  decltype(engine<T>::blocks) blocks{}, staging[2]{};  ///< its own: what was kept has their addresses
  typename T::recording recording;                      // ends first
};

/// A state machine over piece and round. What lies contiguously and travels as it is goes straight from and to its place; the
/// rest is staged. Staging belongs to the communicator, so a message that is still under way after a failure has a place to go.
///
/// A wire that takes runs is told of views that are not contiguous, where their runs are long. Measured over MPI on one host, 2 ranks, 64 KiB to 16 MiB:
/// with runs of 4 KiB and more derived datatypes take 0.3 to 0.97 of the time of packing (MPICH, Open MPI), with runs of 256 bytes mostly longer, up to 1.5.
///
/// Pieces run in two lanes that take turns, strictly, so all ranks post in one order: while a round of one piece is combined, the
/// messages of the other are under way. In one lane where the wire says so.
template <Messaging T>
class messaging_run : public operation {
 public:
  messaging_run(engine<T>& e, const problem& job) : engine_{e}, job_{job} {
    advance = [](operation& o) { return static_cast<messaging_run&>(o).go_on(); };
  }

  typename T::options options{};  ///< of this call

  /// Runs it from the start; the communicator's earlier operations come first.
  void restart() { started_ = false; }

  /// It runs again and again.
  void keep() requires Recorder<T> {
    if (!kept_ && !(repeats_by_ticket && job_.native)) kept_.emplace(wire());
  }
  std::string how() const requires Recorder<T> { return kept_ ? kept_->recording.how() : ""; }

 private:
  using sheet = worksheet<hands_for<T>>;

  struct message {
    typename T::ticket ticket;
    const transfer* what;
    int index, peer;
    cursor at;
    std::size_t runs;   ///< of memory that it comes from or goes to
    std::byte* staged;  ///< null: it goes straight to or from its place
    bool incoming, done;
  };

  /// One piece after the other, each in all its rounds.
  struct lane {
    sheet books{};
    step now{};
    message* messages = nullptr;
    int first_of[step::capacity]{};  ///< where the messages of each transfer begin
    int count = 0, round = 0;
    bool is_active = false;
  };
  static constexpr std::size_t most_lanes = 2;
  static constexpr bool repeats_by_ticket = requires(T& t, kept_work<T>& k, void (*put)()) { { t.repeat(k.recording, put) } -> std::same_as<typename T::ticket>; };
  static constexpr bool takes_runs = requires(T& t, const std::byte* data, std::size_t bytes) { t.add_run(data, bytes); };

  T& wire() { return engine_.transport; }

  advanced go_on() {
    if (!started_) {
      if constexpr (requires { wire().begin(options); }) wire().begin(options);
      if (job_.schedule.rounds == 0) return keep_own(job_, hands_of(wire())), advanced::finished;
      started_ = true;
      if constexpr (Recorder<T>)
        if (kept_) repeat();
      if (!is_kept()) post();
    }
    if (is_kept()) return is_repeated();
    return job_.native ? go_on_natively() : go_on_in_lanes();
  }

  void post() {
    if (job_.native) begin_natively();
    else begin();
  }
  bool is_kept() const {
    if constexpr (Recorder<T>) return kept_.has_value();
    else return false;
  }
  advanced is_repeated() {
    if constexpr (repeats_by_ticket) {
      now.peer = -1;
      if (!wire().done(native_)) return advanced::stuck;
    }
    return advanced::finished;
  }
  void repeat() {
    swap_rooms();
    try {
      const auto put = [this] {
        post();
        static_cast<void>(job_.native ? go_on_natively() : go_on_in_lanes());
      };
      if constexpr (repeats_by_ticket) native_ = wire().repeat(kept_->recording, put);
      else wire().repeat(kept_->recording, put);
    } catch (...) {
      swap_rooms();
      throw;
    }
    swap_rooms();
  }
  void swap_rooms() noexcept {
    std::swap(engine_.blocks, kept_->blocks);
    std::swap(engine_.staging, kept_->staging);
  }

  void begin_natively() {
    asked_ = &views_.begin(engine_, job_);
    job_.native(&wire(), *asked_, &native_);
  }
  advanced go_on_natively() {
    now.peer = -1;
    if (!wire().done(native_)) return advanced::stuck;
    const memory& out = asked_->out;
    if (job_.compute.finishes && out.count > 0 && views_.writes(job_, wire().rank())) {
      const source all{out.base, false};
      hands_of(wire()).combine(job_.compute, out.base, &all, 1, out.count, wire().size());
    }
    views_.end(engine_, job_);
    if (job_.then) job_.then->apply(job_.then->self, 0, job_.out.count);
    return advanced::finished;
  }

  advanced go_on_in_lanes() {
    for (bool moved = false;; moved = true) {
      for (int i = 0; i < lane_->count; ++i) {
        auto& m = lane_->messages[i];
        if (!m.done && !(m.done = wire().done(m.ticket))) {
          now.peer = m.peer;
          return moved ? advanced::moved : advanced::stuck;
        }
      }
      end_round();
      if (++lane_->round == job_.schedule.rounds) {
        lane_->books.end_piece();
        lane_->is_active = lane_->books.next_piece(lanes_in_use_);
        lane_->round = 0;
      }
      if (lane_->is_active) post_round();
      lane& other = lanes_[lane_ == &lanes_[0] ? 1 : 0];
      if (other.is_active) use(other);
      else if (!lane_->is_active) return advanced::finished;
    }
  }

  static std::size_t lanes_of(const T& wire) {
    if constexpr (requires { wire.pieces_at_once(); }) return wire.pieces_at_once();
    else return most_lanes;
  }

  void use(lane& l) {
    lane_ = &l;
    now.round = l.round;
  }

  void begin() {
    const int rank = wire().rank(), size = wire().size();
    const auto need = sheet::bytes_needed(job_, rank, size, wire().piece_bytes());
    const auto hands = hands_of(wire());
    const auto up = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
    const auto books = need.books + up(2 * static_cast<std::size_t>(step::capacity) * static_cast<std::size_t>(size) * sizeof(message));
    lanes_in_use_ = std::min({most_lanes, need.pieces, lanes_of(wire())});
    auto* const all_books = engine_.books.at_least(lanes_in_use_ * books + (static_cast<std::size_t>(size) + 1) * sizeof(source));
    auto* const all_blocks = engine_.blocks.at_least(lanes_in_use_ * up(need.blocks), hands);
    sources_ = reinterpret_cast<source*>(all_books + lanes_in_use_ * books);
    for (std::size_t i = 0; i < most_lanes; ++i) {
      auto& l = lanes_[i];
      l.is_active = i < lanes_in_use_;
      if (!l.is_active) continue;
      l.books.begin(job_, rank, size, wire().piece_bytes(), all_books + i * books, all_blocks + i * up(need.blocks), hands);
      if (i > 0) l.books.next_piece(i);
      l.messages = reinterpret_cast<message*>(all_books + i * books + need.books);
      l.round = 0;
      use(l);
      post_round();
    }
    use(lanes_[0]);
  }

  void post_round() {
    auto& l = *lane_;
    now.round = l.round;
    l.now = l.books.at(l.round);
    l.count = 0;
    const bool complete = now.round >= job_.schedule.reduce_rounds;
    for (const transfer& t : l.now) {
      if (complete && t.to.count > 0) l.books.finish_before_sending(t.send, t.to.count);
      if (is_local(t)) {
        l.books.combine_locally(t, finishes_now());
        continue;
      }
      l.books.begin_sending(t.send, t.to.count);
      l.first_of[l.now.index_of(t)] = l.count;
      for (int i = 0; i < t.from.count; ++i) add(t, i, true);
      for (int i = 0; i < t.to.count; ++i) add(t, i, false);
    }
    post_messages();
  }

  /// What is sent first, so that it is on its way while the rest is posted.
  void post_messages() {
    auto& l = *lane_;
    std::size_t bytes = 0;
    for (int i = 0; i < l.count; ++i)
      if (!(l.messages[i].runs = runs_of(l.messages[i]))) bytes += staged_bytes(l.messages[i]);
    auto* staging = engine_.staging[lane_ - lanes_].at_least(bytes, hands_of(wire()));
    for (const bool incoming : {false, true})
      for (int i = 0; i < l.count; ++i)
        if (auto& m = l.messages[i]; m.incoming == incoming) post(m, staging);
    wire().submit();
  }

  void post(message& m, std::byte*& staging) {
    const auto length = m.at.left * job_.compute.wire_bytes;
    std::byte* place = nullptr;
    if (m.runs == 0) {
      place = m.staged = std::exchange(staging, staging + staged_bytes(m));
      if (!m.incoming) lane_->books.pack(m.at, m.what->send, m.index, m.at.left, place);
    } else {
      for_each_stretch(m, [&](std::byte* data, std::size_t bytes) {
        place = data;
        if constexpr (takes_runs) if (m.runs > 1) wire().add_run(data, bytes);
      });
    }
    m.ticket = m.incoming ? wire().receive(m.peer, place, length, tag()) : wire().send(m.peer, place, length, tag());
  }

  void add(const transfer& t, int index, bool incoming) {
    const auto at = lane_->books.start(incoming ? t.receive : t.send, index);
    const int peer = lane_->books.real((incoming ? t.from : t.to).at(index, lane_->books.size()));
    if (at.left > 0) std::construct_at(&lane_->messages[lane_->count++], message{{}, &t, index, peer, at, 0, nullptr, incoming, false});
  }

  std::size_t staged_bytes(const message& m) const { return (m.at.left * job_.compute.wire_bytes + 63) / 64 * 64; }

  /// Calls f(data, bytes) for each run of memory that the message comes from or goes to; neighbours are one.
  template <class F>
  void for_each_stretch(const message& m, F f) {
    std::byte *begin = nullptr, *end = nullptr;
    cursor at = m.at;
    lane_->books.advance(at, m.incoming ? m.what->receive : m.what->send, m.index, at.left, [&](int b, std::size_t offset, std::size_t count) {
      for_each_run(m.incoming ? lane_->books.home(b, offset) : lane_->books.current(b, offset), count, [&](std::byte* data, std::size_t, std::size_t n) {
        if (data != end || !begin) {
          if (begin) f(begin, static_cast<std::size_t>(end - begin));
          begin = data;
        }
        end = data + n * job_.compute.element_bytes;
      });
    });
    f(begin, static_cast<std::size_t>(end - begin));
  }

  /// In how many runs the message may lie where it belongs; 0: it is staged. So is what is sent and received in one round, on arrival.
  std::size_t runs_of(const message& m) {
    if (job_.compute.to_wire || (m.incoming && (m.what->then != arrival::replace || m.what->send == m.what->receive))) return 0;
    std::size_t runs = 0;
    for_each_stretch(m, [&](std::byte*, std::size_t) { ++runs; });
    if constexpr (takes_runs) return runs == 1 || m.at.left * job_.compute.wire_bytes / runs >= wire().shortest_run() ? runs : 0;
    else return runs == 1 ? 1 : 0;
  }

  void end_round() {
    const bool complete = now.round >= job_.schedule.reduce_rounds;
    for (const transfer& t : lane_->now) {
      if (is_local(t)) continue;
      if (t.then == arrival::replace) {
        for (int i = 0; i < lane_->count; ++i) {
          auto& m = lane_->messages[i];
          if (m.what == &t && m.incoming && m.staged) lane_->books.replace(m.at, t.receive, m.index, m.at.left, m.staged);
        }
      } else {
        combine(t);
      }
    }
    for (const transfer& t : lane_->now)
      if (!is_local(t)) lane_->books.end_sending(t.send, t.to.count);
    for (const transfer& t : lane_->now) lane_->books.end_receiving(t.receive, t.from.count, complete || (t.then != arrival::replace && finishes_now()));
  }

  /// One pass over what all peers of the transfer have sent, and over this rank's own.
  void combine(const transfer& t) {
    cursor at = lane_->books.start(t.receive, 0);
    if (at.left == 0) return;
    const message* const first = lane_->messages + lane_->first_of[lane_->now.index_of(t)];  // each peer's, as long as the first
    arrange_sources(t.from, t.then, lane_->books.virtual_rank(), lane_->books.size(), sources_, [&](int i) { return first[i].staged; });
    lane_->books.combine(at, t.receive, at.left, sources_, t.from.count + 1, finishes_now());
  }

  std::uint64_t tag() const { return operation::tag; }
  bool finishes_now() const { return now.round == job_.schedule.reduce_rounds - 1; }
  bool is_local(const transfer& t) const { return t.to.count == 1 && t.to.first == lane_->books.virtual_rank(); }

  engine<T>& engine_;
  const problem& job_;
  lane lanes_[most_lanes]{};
  lane* lane_ = &lanes_[0];  ///< whose turn it is
  std::size_t lanes_in_use_ = 1;
  source* sources_ = nullptr;
  stand_in views_{};                 ///< of a native collective
  const problem* asked_ = nullptr;  ///< what it was asked
  typename T::ticket native_{};
  bool started_ = false;
  std::optional<kept_work<T>> kept_{};
};

}  // namespace kolo::inline v0::detail

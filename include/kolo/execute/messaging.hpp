// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule over a message transport: a round is posted together, awaited, and then combined.
#pragma once

#include <kolo/execute/block_state.hpp>
#include <kolo/execute/engine.hpp>
#include <kolo/execute/operation.hpp>
#include <kolo/transport/abilities.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// A state machine over piece and round. Contiguous data that travels unconverted is sent and received in place; the
/// rest is staged. Staging belongs to the communicator, so a message that is in flight after a failure still has its
/// buffer.
///
/// A transport that takes runs gets the runs of views that are not contiguous, if those are long. Measured over MPI on
/// one host, 2 ranks, 64 KiB to 16 MiB: with runs of 4 KiB and more derived datatypes take 0.3 to 0.97 of the time of
/// packing (MPICH, Open MPI), with runs of 256 bytes mostly longer, up to 1.5.
///
/// At most two pieces are in flight and strictly alternate, so all ranks post in one order: while a round of one piece
/// is combined, the messages of the other are in flight. Only one is if the transport specifies so.
///
/// Example: allreduce by `ring` on 3 ranks, 2 pieces. It posts round 0 of piece 0; then round 0 of piece 1; when the
/// messages of piece 0 are done, it combines its block and posts its round 1; then the same for piece 1; and so on for
/// 4 rounds.
template <MessageTransport T>
class messaging_run final : public driver {
 public:
  messaging_run(engine<T>& e, const collective_args& args, operation& o)
      : engine_{e}, args_{args}, operation_{o}, now{o.now} {
    const int rank = transport().rank(), size = transport().size();
    const auto need = block_states::bytes_needed(args_, rank, size, piece_bytes());
    const auto executor = executor_of(transport());
    const auto state_bytes =
        need.state_memory + in_lines(2 * std::size_t(step::capacity) * std::size_t(size) * sizeof(message));
    in_flight_count_ = std::min({most_in_flight, need.pieces, transport::pieces_at_once(transport())});
    auto* const all_state = engine_.current_scratch->state.at_least(in_flight_count_ * state_bytes +
                                                                    (std::size_t(size) + 1) * sizeof(source));
    auto* const all_blocks =
        engine_.current_scratch->blocks.at_least(in_flight_count_ * in_lines(need.blocks), executor);
    sources_ = reinterpret_cast<source*>(all_state + in_flight_count_ * state_bytes);
    for (std::size_t i = 0; i < in_flight_count_; ++i) {
      auto& l = in_flight_[i];
      l.is_active = true;
      l.blocks.begin(args_, rank, size, piece_bytes(), all_state + i * state_bytes,
                     all_blocks + i * in_lines(need.blocks), executor);
      if (i > 0) l.blocks.next_piece(i);
      l.messages = reinterpret_cast<message*>(all_state + i * state_bytes + need.state_memory);
      use(l);
      post_round();
    }
    use(in_flight_[0]);
  }

  advanced go_on() override {
    for (bool moved = false;; moved = true) {
      for (int i = 0; i < current_->count; ++i) {
        auto& m = current_->messages[i];
        if (!m.done && !(m.done = transport().done(m.ticket))) {
          now.peer = m.peer;
          return moved ? advanced::moved : advanced::stuck;
        }
      }
      end_round();
      if (++current_->round == args_.schedule.rounds) {
        current_->blocks.end_piece();
        current_->is_active = current_->blocks.next_piece(in_flight_count_);
        current_->round = 0;
      }
      if (current_->is_active) post_round();
      in_flight_piece& other = in_flight_[current_ == &in_flight_[0] ? 1 : 0];
      if (other.is_active) use(other);
      else if (!current_->is_active) return advanced::finished;
    }
  }

 private:
  using block_states = block_state<executor_for<T>>;

  struct message {
    typename T::ticket ticket;
    const transfer* what;
    int index, peer;
    cursor at;
    std::size_t runs;   ///< number of memory runs of the message
    std::byte* staged;  ///< null: sent or received in place
    bool incoming, done;
  };

  /// A sequence of pieces, each in all its rounds.
  struct in_flight_piece {
    block_states blocks{};
    step now{};
    message* messages = nullptr;
    int first_of[step::capacity]{};  ///< index of the first message of each transfer
    int count = 0, round = 0;
    bool is_active = false;
  };
  static constexpr std::size_t most_in_flight = 2;
  static constexpr bool takes_runs = TakesRuns<T>;

  T& transport() { return engine_.transport; }

  /// A point-to-point call is one message.
  std::size_t piece_bytes() { return operation_.is_point_to_point() ? std::size_t(-1) : transport().piece_bytes(); }

  void use(in_flight_piece& l) {
    current_ = &l;
    now.round = l.round;
  }

  void post_round() {
    auto& l = *current_;
    now.round = l.round;
    l.now = l.blocks.at(l.round);
    l.count = 0;
    l.blocks.begin_round(l.now, l.round, [&](const transfer& t) {
      l.first_of[l.now.index_of(t)] = l.count;
      for (int i = 0; i < t.from.count; ++i) add(t, i, true);
      for (int i = 0; i < t.to.count; ++i) add(t, i, false);
    });
    std::size_t bytes = 0;
    for (int i = 0; i < l.count; ++i)
      if (!(l.messages[i].runs = runs_of(l.messages[i]))) bytes += staged_bytes(l.messages[i]);
    auto* staging = engine_.current_scratch->staging[current_ - in_flight_].at_least(bytes, executor_of(transport()));
    for (const bool incoming : {false, true})  // sends are on their way while receives are posted
      for (int i = 0; i < l.count; ++i)
        if (auto& m = l.messages[i]; m.incoming == incoming) post(m, staging);
    if (!operation_.is_point_to_point())
      transport().submit();  // else the engine does, after all pair operations have posted
  }

  void post(message& m, std::byte*& staging) {
    const auto length = m.at.left * args_.compute.wire_bytes;
    std::byte* bytes_at = nullptr;
    if (m.runs == 0) {
      bytes_at = m.staged = std::exchange(staging, staging + staged_bytes(m));
      if (!m.incoming) current_->blocks.pack(m.at, m.what->send, m.index, m.at.left, bytes_at);
    } else {
      for_each_stretch(m, [&](std::byte* data, std::size_t bytes) {
        bytes_at = data;
        if constexpr (takes_runs)
          if (m.runs > 1) transport().add_run(data, bytes);
      });
    }
    m.ticket = m.incoming ? transport().receive(m.peer, bytes_at, length, tag())
                          : transport().send(m.peer, bytes_at, length, tag());
  }

  void add(const transfer& t, int index, bool incoming) {
    const auto at = current_->blocks.start(incoming ? t.receive : t.send, index);
    const int peer = current_->blocks.real((incoming ? t.from : t.to).at(index, current_->blocks.size()));
    if (at.left > 0)
      std::construct_at(&current_->messages[current_->count++],
                        message{{}, &t, index, peer, at, 0, nullptr, incoming, false});
  }

  std::size_t staged_bytes(const message& m) const { return in_lines(m.at.left * args_.compute.wire_bytes); }

  static bool covers(const memory* m, const std::byte* begin, const std::byte* end) {
    return !m->find && m->base <= begin && end <= m->base + m->count * m->element_bytes;
  }

  /// Calls f(data, bytes) for each run of memory of the message; adjacent runs are merged. On a device only runs in one
  /// contiguous view are: others may be of two allocations, which must be passed separately.
  void for_each_stretch(const message& m, auto f) {
    constexpr bool all_is_one = space_of<T> == memory_space::host;
    std::byte *begin = nullptr, *end = nullptr;
    const memory* in = nullptr;
    cursor at = m.at;
    current_->blocks.advance(
        at, m.incoming ? m.what->receive : m.what->send, m.index, at.left,
        [&](int b, std::size_t offset, std::size_t count) {
          const auto p = m.incoming ? current_->blocks.destination(b, offset) : current_->blocks.current(b, offset);
          for_each_run(p, count, [&](std::byte* data, std::size_t, std::size_t n) {
            auto* const next = data + n * args_.compute.element_bytes;
            if (!begin || data != end || !(all_is_one || covers(in, begin, next) || covers(p.where, begin, next))) {
              if (begin) f(begin, std::size_t(end - begin));
              begin = data;
              in = p.where;
            }
            end = next;
          });
        });
    f(begin, std::size_t(end - begin));
  }

  /// The number of runs in which the message may be sent or received in place; 0: it is staged. Blocks that are both
  /// sent and received in one round are staged on arrival.
  std::size_t runs_of(const message& m) {
    if (args_.compute.to_wire || (m.incoming && (m.what->then != arrival::replace || m.what->send == m.what->receive)))
      return 0;
    std::size_t runs = 0;
    for_each_stretch(m, [&](std::byte*, std::size_t) { ++runs; });
    if constexpr (takes_runs)
      return runs == 1 || m.at.left * args_.compute.wire_bytes / runs >= transport().shortest_run() ? runs : 0;
    else return runs == 1 ? 1 : 0;
  }

  void end_round() {
    for (const transfer& t : current_->now) {
      if (current_->blocks.is_local(t)) continue;
      if (t.then == arrival::replace) {
        for (int i = 0; i < current_->count; ++i) {
          auto& m = current_->messages[i];
          if (m.what == &t && m.incoming && m.staged)
            current_->blocks.replace(m.at, t.receive, m.index, m.at.left, m.staged);
        }
      } else if (t.from.count > 0) {
        combine(t);
      }
    }
    current_->blocks.end_round(current_->now, now.round);
  }

  /// One pass over the data of all peers of the transfer, and over this rank's own.
  void combine(const transfer& t) {
    cursor at = current_->blocks.start(t.receive, 0);
    if (at.left == 0) return;
    const message* const first =
        current_->messages + current_->first_of[current_->now.index_of(t)];  // one for each peer, as long as the first
    arrange_sources(t.from, t.then, current_->blocks.virtual_rank(), current_->blocks.size(), sources_,
                    [&](int i) { return first[i].staged; });
    current_->blocks.combine(at, t.receive, at.left, sources_, t.from.count + 1, current_->blocks.completes(now.round));
  }

  std::uint64_t tag() const { return operation_.tag; }

  engine<T>& engine_;
  const collective_args& args_;
  operation& operation_;
  wait_context& now;
  in_flight_piece in_flight_[most_in_flight]{};
  in_flight_piece* current_ = &in_flight_[0];  ///< the piece whose turn it is
  std::size_t in_flight_count_ = 1;
  source* sources_ = nullptr;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

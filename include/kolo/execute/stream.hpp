// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule that is one exchange, perhaps with replies, as streams of pieces that do not wait for each other.
#pragma once

#include <kolo/execute/combine_pass.hpp>
#include <kolo/execute/piece_protocols.hpp>
#include <kolo/transport/reclaim.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Decides which pieces to send and receive, in an order that no late peer holds up; `piece_protocols` moves them.
///
/// Example: allreduce by `two_shot` of 4 MiB on 4 ranks. The pattern is there_and_back: block j of every rank goes to
/// rank j, and its combination comes back. So rank 0 has three outgoing streams, its blocks 1, 2 and 3 of 1 MiB each,
/// in pieces of `round_trip_bytes()`, so that data in flight stays in the cache. `put_some` sends pieces to every peer
/// that has a free slot. `combine_some` waits until piece k of block 0 has come from all three, combines them with its
/// own in one pass, and leaves the result as the reply in each of the three slots. `collect_some` moves the replies for
/// blocks 1, 2 and 3 to their destinations, and frees those slots. No stream waits for another one: if rank 2 is late,
/// pieces of 1 and 3 continue up to the number that may be in flight.
template <SharedMemoryTransport T>
class stream_run final : public driver, piece_protocols<T>, layout {
 public:
  stream_run(engine<T>& e, const collective_args& args, operation& o) : piece_protocols<T>{e, args, o} {
    describe(args, transport().rank(), transport().size(), piece_bytes());
    const auto ranks = std::size_t(size());
    const auto parts = (ranks + 1) * sizeof(std::size_t) * 2;
    auto* state = e.current_scratch->state.at_least(
        parts + ranks * (2 * sizeof(peer_stream) + sizeof(source) + sizeof(reply)) + sizeof(source));
    place_parts([&](std::size_t bytes) { return reinterpret_cast<std::size_t*>(std::exchange(state, state + bytes)); });
    out_ = reinterpret_cast<peer_stream*>(state);
    in_ = out_ + ranks;
    sources_ = reinterpret_cast<source*>(in_ + ranks);
    replies_ = reinterpret_cast<reply*>(sources_ + ranks + 1);
    this->piece_length_ = piece_elements_;
    pieces_ = pieces();
    const simple_round round{args.schedule.at(args.schedule.self, virtual_rank(), size(), 0), virtual_rank(),
                             args.collective};
    transfer_ = round.main;
    plan_streams();
    if (args.collective == kind::gather) copy_own_part(transport().slots());  // the root, while the others write
    if (round.has_local) {
      const int from = block_of(round.local.send, 0, 0);
      copy_elements(input_of(from, 0), destination(block_of(round.local.receive, 0, 0), 0), whole(from).count,
                    mover{past_cache_});
    }
  }

  advanced go_on() override {
    for (bool moved = false;;) {
      bool done = true, some = false;
      some |= put_some(done);
      some |= combines() ? combine_some(done) : replace_some(done);
      some |= collect_some(done);
      if constexpr (HasBoard<T>) some |= end_posts(done);
      moved |= some;
      if (done) return finish(), advanced::finished;
      if (!some) {
        if (!moved) this->check_strays();
        return moved ? advanced::moved : advanced::stuck;
      }
    }
  }

  /// Makes the views the caller's again: waits for a peer in the middle of a piece, and revokes it from a process that
  /// has stopped there.
  [[gnu::cold, gnu::noinline]] void revoke() noexcept override {
    end_lending();
    unclaim();  // their owners may be waiting for this rank
    const auto start = backoff::clock::now();
    for (int i = 0; i < transfer_.to.count; ++i)
      if (out_[i].refers) transport::reclaim(transport(), out_[i].peer, start);
  }

 private:
  using protocols = piece_protocols<T>;
  using protocols::element_bytes, protocols::elements, protocols::part, protocols::combines;
  using protocols::exchange, protocols::put, protocols::post, protocols::poll, protocols::take, protocols::confirm,
      protocols::release, protocols::end_lending;
  using protocols::transfer_, protocols::out_, protocols::in_, protocols::pieces_, protocols::exchanges_,
      protocols::is_round_trip_, protocols::in_place_, protocols::is_on_board_, protocols::posts_ended_;
  using protocols::transport, protocols::now, protocols::args_;
  using typename protocols::peer_stream;

  /// Between two ranks, what goes one way is cut into quarters of 16 KiB up to a slot, so that the receiver begins
  /// before the sender has ended; unless it is small: a plan sends it as one piece. More ranks may take turns on a
  /// core: 64 KiB in four pieces took 1.3 to 1.5 times as long among 3 to 8 of them on 2 cores.
  std::size_t piece_bytes() {
    if (is_round_trip_) return transport().round_trip_bytes();
    const auto most = transport().slot_bytes(), small = most_small_bytes(transport());
    const auto bytes = args_.count * element_bytes();
    const bool is_cut = args_.runs_as == pattern::one_way && transport().size() == 2 && !args_.send_counts &&
                        !args_.receive_counts && bytes > small && most > small;
    return is_cut ? std::clamp((args_.count + 3) / 4 * element_bytes(), small / 2, most) : most;
  }

  /// Whether no cache holds the vector together with the peers' copies of it.
  bool is_long() const {
    return 4 * std::max(args_.count, args_.out.count) * element_bytes() >= core::largest_cache_bytes();
  }
  /// Input and output together, which the caller will read.
  static bool fits_in_cache(const memory& in, const memory& out) {
    return in.count * in.element_bytes + out.count * out.element_bytes < core::largest_cache_bytes();
  }

  void plan_streams() {
    const transfer& t = transfer_;
    in_place_ = args_.in.find || args_.out.find || !view::are_disjoint(args_.in, args_.out);
    const bool reads_first = in_place_ && is_round_trip_;
    past_cache_ = is_long() && !reads_first && (!exchanges_ || !fits_in_cache(args_.in, args_.out));
    for (int i = 0; i < t.to.count; ++i) {
      const int b = block_of(t.send, 0, i);
      out_[i] = {.peer = real(t.to.at(i, size())),
                 .count = whole(b).count,
                 .at = input_of(b, 0),
                 .reply = is_round_trip_ ? destination(b, 0) : element_position{}};
    }
    for (int i = 0; i < (combines() ? 1 : t.from.count); ++i) {
      const int b = block_of(t.receive, 0, i);
      in_[i] = {.peer = real(t.from.at(i, size())), .count = whole(b).count, .at = destination(b, 0)};
      if (combines()) own_ = input_of(b, 0);
    }
    if (combines())
      for (int i = 1; i < t.from.count; ++i) (in_[i] = in_[0]).peer = real(t.from.at(i, size()));
    if constexpr (HasBoard<T>) is_on_board_ = uses_board(args_, args_.runs_as, size(), transport().board_bytes());
    if (!exchanges_ || is_on_board_) return;
    for (int i = 0; i < t.to.count; ++i)
      out_[i].is_exchange = in_[i].is_exchange =
          is_exchange(out_[i].count * element_bytes(), in_[i].count * element_bytes(), transport().exchange_bytes());
  }

  bool put_some(bool& done) {
    if constexpr (HasBoard<T>)
      if (is_on_board_) return post_some(done);
    bool some = false;
    for (int i = 0; i < transfer_.to.count; ++i) {
      auto& l = out_[i];
      if (const auto n = elements(l, l.moved); n == 0) l.moved = pieces_;
      else if (l.is_exchange) exchange(l, n);
      else if ((is_round_trip_ && l.moved - l.replied == max_in_flight(l)) || !put(l, n))
        now().peer = l.peer, done = false;
      else some = true, done &= ++l.moved == pieces_;
    }
    if (some && args_.collective == kind::allgather) copy_own_part(out_[transfer_.to.count - 1].moved);
    return some;
  }

  /// The part that never travels, because this rank has it and needs it, up to that piece.
  void copy_own_part(std::size_t pieces) {
    const int own = virtual_rank();
    if (!holds_part(own)) return;
    const auto until = std::min(pieces * piece_elements_, whole(own).count);
    if (until <= own_copied_) return;
    copy_elements(input_of(own, own_copied_), destination(own, own_copied_), until - own_copied_, mover{past_cache_});
    own_copied_ = until;
  }

  /// The number of pieces to that peer whose replies may be outstanding. References take no space in a slot.
  std::size_t max_in_flight(const peer_stream& l) {
    return l.refers ? transport().slots() : transport().round_trip_slots();
  }

  bool post_some(bool& done) {
    const int peers = transfer_.to.count;
    if (peers == 0 || out_[0].moved == pieces_) return false;
    if (exchanges_ && has_posted_) return done = false;
    if (!post(out_[0])) return done = false;
    has_posted_ = true;
    for (int i = 0; !out_[0].is_lent && i < peers; ++i) ++out_[i].moved;
    done &= out_[0].moved == pieces_;
    return true;
  }

  /// If all ranks post: whether all have, and this rank has read every post. From then on, if one rank has announced
  /// references, the pieces of all ranks go through slots.
  bool end_posts(bool& done) {
    const int peers = combines() ? 1 : transfer_.from.count;
    if (!is_on_board_ || !exchanges_ || !has_posted_) return false;
    bool lends = out_[0].is_lent;
    for (int i = 0; i < peers; ++i) {
      const auto& l = in_[i];
      if (l.moved == posts_ended_ && !l.is_lent) return false;
      lends |= l.is_lent;
      if (elements(l, posts_ended_) == 0 && !this->expected(transport().peek_board(l.peer), l.peer, 0).data)
        return done = false;  // its part has ended, and it posts to the end
    }
    transport().end_board(true);
    ++posts_ended_;
    has_posted_ = false;
    is_on_board_ = !lends;
    for (int i = 0; lends && i < transfer_.to.count; ++i) out_[i].replied = out_[i].moved;
    return true;
  }

  void unclaim() {
    for (int i = 0; i < transfer_.from.count; ++i) transport().unclaim(in_[i].peer);
  }

  /// f() works on claimed pieces. No rank keeps a claim for longer: the owners may wait for them.
  void while_claimed(auto f) {
    core::with_rollback(f, [&] { unclaim(); });
  }

  bool replace_some(bool& done) {
    bool some = false;
    for (int i = 0; i < transfer_.from.count; ++i) {
      auto& l = in_[i];
      const auto n = elements(l, l.moved);
      if (n == 0) {
        l.moved = pieces_;
        continue;
      }
      const bool is_ahead = is_on_board_ && exchanges_ && (l.moved > posts_ended_ || l.is_lent);
      received_slot a{};
      while_claimed([&] {
        if (!is_ahead && poll(l, n).data) a = take(l, n);
        if (!a.data) return;
        unpack(a.data, part(l.at, l.moved), n, a.in_ring);
        confirm(l);
        release(l);
      });
      if (!a.data) {
        done = false;
        continue;
      }
      some = true;
      done &= ++l.moved == pieces_;
    }
    return some;
  }

  void unpack(const std::byte* from, const element_position& p, std::size_t n, bool in_ring = false) {
    const auto copy = past_cache_ ? core::copy_past_cache : in_ring ? core::copy_from_ring : host_executor::copy;
    for_each_run(p, n, [&](std::byte* to, std::size_t done, std::size_t run) {
      copy(to, from + done * element_bytes(), run * element_bytes());
    });
  }

  /// One pass over all peers' parts of a piece, and over this rank's own.
  bool combine_some(bool& done) {
    auto& all = in_[0];
    const auto n = elements(all, all.moved);
    if (n == 0) return all.moved = pieces_, false;
    const bool others_done = std::exchange(done, false);
    for (int i = 0; in_place_ && !is_round_trip_ && i < transfer_.to.count; ++i)
      if (out_[i].moved <= all.moved) return false;  // it would overwrite unsent input
    for (int i = 0; i < transfer_.from.count; ++i)
      if (!poll(in_[i], n).data) return false;
    bool all_arrived = true;
    while_claimed([&] {
      arrange_sources(transfer_.from, transfer_.then, virtual_rank(), size(), sources_, [&](int i) {
        const received_slot a = take(in_[i], n);
        all_arrived = all_arrived && a.data;
        replies_[i] = {a.back, a.back == a.data ? nullptr : &transport().one_way_reply(in_[i].peer)};
        return a.data;
      });
      if (!all_arrived) return unclaim();
      combine_pass{args_.compute, size(), sources_, transfer_.from.count + 1, is_round_trip_ ? replies_ : nullptr,
                   past_cache_}
          .run(part(all.at, all.moved), part(own_, all.moved), n, [this] {
            if (const failure* f = transport().failed()) throw error{*f};
          });
      for (int i = 0; i < transfer_.from.count; ++i) confirm(in_[i]);
      for (int i = 0; i < transfer_.from.count; ++i) release(in_[i]);
    });
    if (!all_arrived) return false;  // a rank has failed
    if (args_.epilogue) conclude(part(all.at, all.moved), n);
    done = ++all.moved == pieces_ && others_done;
    return true;
  }

  /// Collects replies in slots; and notes which peers are done with references.
  bool collect_some(bool& done) {
    bool some = false;
    for (int i = 0; i < transfer_.to.count; ++i) {
      auto& l = out_[i];
      const auto sent = std::min(l.moved, (l.count + piece_elements_ - 1) / piece_elements_);
      if (l.replied == sent || (!is_round_trip_ && !l.refers)) continue;
      const auto* const reply = transport().returned(l.peer, l.first + l.replied);
      if (!reply) {
        if (std::exchange(done, false)) now().peer = l.peer;  // else an earlier peer is awaited first, which may be why
        continue;
      }
      if (is_round_trip_ && !protocols::is_replied_indirectly(l))
        unpack(reply, part(l.reply, l.replied), elements(l, l.replied));
      some = true;
      done &= ++l.replied == sent && l.moved == pieces_;
    }
    return some;
  }

  void finish() {
    copy_own_part(pieces());
    if (past_cache_) core::end_past_cache();
    end_lending();
  }

  source* sources_ = nullptr;
  reply* replies_ = nullptr;
  element_position own_{};
  std::size_t own_copied_ = 0;  ///< elements; in an allgather over slots piece by piece, from the cache
  bool past_cache_ = false, has_posted_ = false;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

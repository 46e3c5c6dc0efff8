// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a schedule that is one exchange, there and perhaps back, as streams of pieces that do not wait for each other.
#pragma once

#include <kolo/execute/combine_pass.hpp>
#include <kolo/execute/layout.hpp>
#include <kolo/execute/mismatch.hpp>
#include <kolo/execute/pattern.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// A piece takes the cheapest way that its size and where it lies allow (when; what moves, and where to):
///
/// * exchange: both ranks of a pair send one small piece; into the line or block that this rank read last: nothing is
///   acknowledged
/// * board: a rank says the same to all others; there, where all of them read it
/// * spare buffer: both send, and this rank has had fewer pieces than the peer sends; into the buffer that this rank
///   read last, which the piece passes to the peer
/// * slot: always; through a slot: past the caches where that is cheaper; an answer comes back in the same slot, which
///   so is written in turns
/// * reference: large, and both ends of it are addressable; nothing: the peer reads it where it lies, and writes its
///   answer where that belongs
///
/// Sender and receiver need not be told alike: each piece says where it is.
///
/// Memory that only its process addresses goes through slots however large it is. One copy by process_vm_readv would
/// save the second one, but pins page after page: measured from 256 KiB to 64 MiB, on near and on far cores, it took
/// 1.5 to 4.6 times as long.
///
/// Example: allreduce by `two_shot` of 4 MiB on 4 ranks. The pattern is there_and_back: block j of everybody goes to
/// rank j, and its combination comes back. So rank 0 has three outgoing streams, its blocks 1, 2 and 3 of 1 MiB each,
/// in pieces of half a slot, so that what is under way stays in the cache. `put_some` sends pieces to whoever has a
/// free slot. `combine_some` waits until piece k of block 0 has come from all three, combines them with its own in one
/// pass, and leaves the result as the answer in each of the three slots. `collect_some` takes the answers for blocks 1,
/// 2 and 3 to their destinations, and frees those slots. No stream waits for another one: where rank 2 is late, pieces
/// of 1 and 3 go on until their slots are full.
template <SharedMemoryTransport T>
class stream_run : mismatch_checker<T>, layout {
 public:
  stream_run(engine<T>& e, const collective_args& args, operation& o)
      : mismatch_checker<T>{e, args, o},
        exchanges_{args.runs_as == pattern::exchange},
        comes_back_{args.runs_as == pattern::there_and_back} {
    describe(args, transport().rank(), transport().size(), piece_bytes());
    const auto ranks = static_cast<std::size_t>(size());
    const auto parts = (ranks + 1) * sizeof(std::size_t) * 2;
    auto* state = engine_.room->state.at_least(
        parts + ranks * (2 * sizeof(peer_stream) + sizeof(source) + sizeof(std::byte*)) + sizeof(source));
    place_parts([&](std::size_t bytes) { return reinterpret_cast<std::size_t*>(std::exchange(state, state + bytes)); });
    out_ = reinterpret_cast<peer_stream*>(state);
    in_ = out_ + ranks;
    sources_ = reinterpret_cast<source*>(in_ + ranks);
    answers_ = reinterpret_cast<std::byte**>(sources_ + ranks + 1);
    pieces_ = std::max<std::size_t>(1, (longest_ + piece_elements_ - 1) / piece_elements_);
    const simple_round round{args.schedule.at(args.schedule.self, virtual_rank(), size(), 0), virtual_rank(),
                             args.collective};
    transfer_ = round.main;
    plan_streams();
    if (round.has_local) {
      const int from = block_of(round.local.send, 0, 0);
      copy_elements(input_of(from, 0), destination(block_of(round.local.receive, 0, 0), 0), whole(from).count,
                    mover{past_cache_});
    }
  }

  advanced go_on() {
    for (bool moved = false;;) {
      bool done = true, some = false;
      some |= put_some(done);
      some |= combines() ? combine_some(done) : replace_some(done);
      some |= collect_some(done);
      moved |= some;
      if (done) return finish(), advanced::finished;
      if (!some) {
        if (!moved) this->check_strays();
        return moved ? advanced::moved : advanced::stuck;
      }
    }
  }

  /// The views are the caller's again: waits for a peer that is in the middle of a piece, and takes it back from a
  /// process that has stopped there.
  [[gnu::cold, gnu::noinline]] void revoke() noexcept {
    end_lending();
    unclaim();  // they may be waiting for this rank
    const auto start = backoff::clock::now();
    for (int i = 0; i < transfer_.to.count; ++i)
      while (out_[i].refers && !transport().cancel(out_[i].peer)) {
        const auto waited = backoff::clock::now() - start;
        if (waited > longest_piece && transport().revoke(out_[i].peer)) break;
        waited < usual_piece ? void(::sched_yield()) : void(::usleep(200));
      }
  }

 private:
  using mismatch_checker<T>::transport, mismatch_checker<T>::now, mismatch_checker<T>::tag, mismatch_checker<T>::args_,
      mismatch_checker<T>::engine_;
  static constexpr std::chrono::milliseconds usual_piece{1}, longest_piece{1000};

  /// Contiguous elements of a view, and how the peers address them, if they do.
  struct lent_run {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    remote_ref where{};
  };

  /// What goes to one peer, or comes from one.
  struct peer_stream {
    int peer;
    std::size_t count;                    ///< elements in all
    element_position at, answer{};        ///< the first of them; where what comes back for it belongs
    std::size_t moved = 0, answered = 0;  ///< pieces
    std::uint64_t first = 0;              ///< the number of the first piece
    lent_run source{}, reply{};           ///< where `at` and `answer` have come
    bool is_exchange = false, refers = false;
    std::uint8_t answered_indirectly = 0;  ///< one bit for each of the last eight pieces
  };

  /// Back and forth among many, what is under way at once should still fit into the cache.
  std::size_t piece_bytes() {
    constexpr std::size_t usual_slot = 64 * 1024;
    constexpr std::size_t least = 4 * 1024 + 256;  // whole elements of it are long enough to be referred to
    const auto slot = transport().slot_bytes();
    if (!comes_back_) return slot;
    return std::min(slot, std::max(least, 2 * std::max(slot, usual_slot) / static_cast<std::size_t>(size_)));
  }
  bool combines() const { return transfer_.then != arrival::replace && transfer_.from.count > 0; }
  std::size_t element_bytes() const { return args_.compute.element_bytes; }
  std::size_t elements(const peer_stream& l, std::size_t piece) const {
    const auto first = piece * piece_elements_;
    return first >= l.count ? 0 : std::min(piece_elements_, l.count - first);
  }
  element_position part(const element_position& p, std::size_t piece) const {
    return {p.where, p.first + piece * piece_elements_};
  }

  static bool may_overlap(const memory& a, const memory& b) {
    if (a.find || b.find) return true;
    return a.base < b.base + b.count * b.element_bytes && b.base < a.base + a.count * a.element_bytes;
  }

  /// A vector that no cache holds, with what the peers' copies of it take there.
  bool is_long() const { return 4 * args_.count * element_bytes() >= core::largest_cache_bytes(); }
  /// What a rank exchanges, and what it gets, which it will look at.
  static bool fits_in_cache(const memory& in, const memory& out) {
    return in.count * in.element_bytes + out.count * out.element_bytes < core::largest_cache_bytes();
  }

  void plan_streams() {
    const transfer& t = transfer_;
    in_place_ = may_overlap(args_.in, args_.out);
    const bool reads_first = in_place_ && comes_back_;
    past_cache_ = is_long() && !reads_first && (!exchanges_ || !fits_in_cache(args_.in, args_.out));
    for (int i = 0; i < t.to.count; ++i) {
      const int b = block_of(t.send, 0, i);
      out_[i] = {.peer = real(t.to.at(i, size())),
                 .count = whole(b).count,
                 .at = input_of(b, 0),
                 .answer = comes_back_ ? destination(b, 0) : element_position{}};
    }
    for (int i = 0; i < (combines() ? 1 : t.from.count); ++i) {
      const int b = block_of(t.receive, 0, i);
      in_[i] = {.peer = real(t.from.at(i, size())), .count = whole(b).count, .at = destination(b, 0)};
      if (combines()) own_ = input_of(b, 0);
    }
    if (combines())
      for (int i = 1; i < t.from.count; ++i) (in_[i] = in_[0]).peer = real(t.from.at(i, size()));
    if constexpr (HasBoard<T>) is_on_board_ = goes_on_board(args_, args_.runs_as, size(), transport().board_bytes());
    if (!exchanges_ || is_on_board_) return;
    for (int i = 0; i < t.to.count; ++i)
      out_[i].is_exchange = in_[i].is_exchange =
          is_exchange(out_[i].count * element_bytes(), in_[i].count * element_bytes(), transport().exchange_bytes());
  }

  bool put_some(bool& done) {
    if constexpr (HasBoard<T>)
      if (is_on_board_) return post(done);
    bool some = false;
    for (int i = 0; i < transfer_.to.count; ++i) {
      auto& l = out_[i];
      if (l.moved == pieces_) continue;
      if (const auto n = elements(l, l.moved); n == 0) l.moved = pieces_;
      else if (l.is_exchange) exchange(l, n);
      else if ((comes_back_ && l.moved - l.answered == transport().slots()) || !put(l, n))
        now().peer = l.peer, done = false;
      else some = true, done &= ++l.moved == pieces_;
    }
    return some;
  }

  /// On the board; or what says there that pieces come by reference, and so through slots: nothing.
  bool post(bool& done) {
    const int peers = transfer_.to.count;
    if (peers == 0 || out_[0].moved == pieces_) return false;
    auto& l = out_[0];
    const auto n = is_lent(l) ? 0 : elements(l, l.moved);
    auto* const to = transport().reserve_board(n * element_bytes(), now().peer);
    if (!to) return done = false;
    pack(part(l.at, l.moved), n, to);
    transport().post_on_board(n * element_bytes(), tag());
    if (!exchanges_) transport().end_board(false);
    if (n == 0) return is_on_board_ = done = false, true;
    for (int i = 0; i < peers; ++i) ++out_[i].moved;
    done &= l.moved == pieces_;
    return true;
  }

  /// Of what a board holds the sender need not wait for anybody.
  bool is_lent(peer_stream& l) {
    constexpr std::size_t few_pieces = 4;
    if (pieces_ < few_pieces || l.moved > 0 || !this->may_be_remote(elements(l, 0) * element_bytes())) return false;
    if (!std::exchange(lends_, true)) transport().begin_lending();
    return remote_ref_of(l.source, l, l.at, elements(l, 0)).length != 0;
  }

  void exchange(peer_stream& l, std::size_t n) {
    l.moved = pieces_;
    pack(l.at, n, transport().exchange_slot(l.peer));
    transport().post_exchange(l.peer, n * element_bytes(), tag());
  }

  bool put(peer_stream& l, std::size_t n) {
    const auto bytes = n * element_bytes();
    const bool is_remote = this->may_be_remote(bytes);
    auto* to = is_remote ? transport().reserve(l.peer) : transport().reserve(l.peer, bytes);
    if (!to) return false;
    indirect where;
    if (is_remote) {
      if (!std::exchange(lends_, true)) transport().begin_lending();
      if (comes_back_) where.back = remote_ref_of(l.reply, l, l.answer, n);
      // In place, what this rank combines overwrites what it has sent, unless that comes back anyhow.
      if (!in_place_ || !combines() || comes_back_) where.from = remote_ref_of(l.source, l, l.at, n);
    }
    if (where.from.length == 0) {
      if (const auto* theirs = exchanged_for(l)) {
        auto* const spare = transport().spare_buffer(l.peer);
        if (!spare && theirs->moved < l.moved) return false;  // the next one brings it
        where.is_spare = spare != nullptr;
        if (spare) to = spare;
      }
      const auto first = part(l.at, l.moved);
      if (comes_back_ || where.is_spare) pack(first, n, to);
      else transport().one_way(l.peer)(bytes, [&](bool past_cache) { pack(first, n, to, past_cache); });
    }
    l.refers |= where.from.length != 0 || where.back.length != 0;
    const auto bit = static_cast<std::uint8_t>(1u << l.moved % 8);
    l.answered_indirectly =
        static_cast<std::uint8_t>((l.answered_indirectly & ~bit) | (where.back.length != 0 ? bit : 0));
    const auto number = transport().commit(l.peer, bytes, tag(), where);
    if (l.first == 0) l.first = number;
    return true;
  }

  /// The stream in which the peer sends as many pieces as this one has sent, and another one; null: it does not. No
  /// matter how long the vector is: spare buffers stay in the caches, and only its destination is written past them.
  const peer_stream* exchanged_for(const peer_stream& l) const {
    if (!exchanges_) return nullptr;
    const auto& theirs = in_[combines() ? 0 : &l - out_];
    return elements(theirs, l.moved) > 0 ? &theirs : nullptr;
  }

  void end_lending() {
    if (std::exchange(lends_, false)) transport().end_lending();
  }
  void unclaim() {
    for (int i = 0; i < transfer_.from.count; ++i) transport().unclaim(in_[i].peer);
  }

  /// Of the piece that goes to a peer now, n elements of those that begin at `all`. The transport is asked once for
  /// each run of them: where no region holds a run whole, nothing of it is lent.
  remote_ref remote_ref_of(lent_run& run, const peer_stream& l, const element_position& all, std::size_t n) {
    const element_position first = part(all, l.moved);
    const contiguous_run here = first.where->at(first.first);
    if (here.count < n) return {};
    if (here.data < run.begin || run.begin + run.bytes < here.data + n * element_bytes()) {
      run.begin = here.data;
      run.bytes = std::min(here.count, l.count - l.moved * piece_elements_) * element_bytes();
      run.where = transport().make_remote_ref(run.begin, run.bytes);
    }
    remote_ref where = run.where;
    where.offset += static_cast<std::uint64_t>(here.data - run.begin);
    return where;
  }

  void pack(const element_position& p, std::size_t n, std::byte* to, bool past_cache = false) {
    for_each_run(p, n, [&](const std::byte* from, std::size_t done, std::size_t run) {
      mover{past_cache}.copy(to + done * element_bytes(), from, run * element_bytes());
    });
    if (past_cache) host_executor::end_past_cache();
  }

  received_slot poll(const peer_stream& l, std::size_t n) {
    if constexpr (HasBoard<T>)
      if (is_on_board_) {
        const received_slot a = transport().peek_board(l.peer);
        if (!a.data || a.bytes > 0 || a.tag != tag()) return this->expected(a, l.peer, n);
        transport().end_board(false);  // the pieces come by reference
        is_on_board_ = false;
      }
    return this->expected(l.is_exchange ? transport().peek_exchange(l.peer) : transport().peek(l.peer), l.peer, n);
  }
  received_slot take(const peer_stream& l, std::size_t n) {
    return l.is_exchange || is_on_board_ ? poll(l, n) : transport().claim(l.peer);
  }
  void confirm(const peer_stream& l) {
    if (!l.is_exchange && !is_on_board_) mismatch_checker<T>::confirm(l.peer);
  }
  void release(const peer_stream& l) {
    if constexpr (HasBoard<T>)
      if (is_on_board_) return exchanges_ ? void() : transport().end_board(false);  // an exchange ends as a whole
    l.is_exchange ? transport().end_exchange(l.peer) : transport().release(l.peer);
  }

  /// f() works on pieces that were taken. Nobody keeps any for longer: their owners may wait for them.
  template <class F>
  void while_taken(F f) {
    try {
      f();
    } catch (...) {
      unclaim();
      throw;
    }
  }

  bool replace_some(bool& done) {
    bool some = false;
    for (int i = 0; i < transfer_.from.count; ++i) {
      auto& l = in_[i];
      if (l.moved == pieces_) continue;
      const auto n = elements(l, l.moved);
      if (n == 0) {
        l.moved = pieces_;
        continue;
      }
      const received_slot a = poll(l, n).data ? take(l, n) : received_slot{};
      if (!a.data) {
        done = false;
        continue;
      }
      while_taken([&] {
        unpack(a.data, part(l.at, l.moved), n);
        confirm(l);
      });
      release(l);
      some = true;
      done &= ++l.moved == pieces_;
    }
    return some;
  }

  void unpack(const std::byte* from, const element_position& p, std::size_t n) {
    for_each_run(p, n, [&](std::byte* to, std::size_t done, std::size_t run) {
      mover{past_cache_}.copy(to, from + done * element_bytes(), run * element_bytes());
    });
  }

  /// One pass over what all peers have sent for a piece, and over this rank's own.
  bool combine_some(bool& done) {
    auto& all = in_[0];
    if (all.moved == pieces_) return false;
    const auto n = elements(all, all.moved);
    if (n == 0) return all.moved = pieces_, false;
    const bool others_done = std::exchange(done, false);
    for (int i = 0; in_place_ && !comes_back_ && i < transfer_.to.count; ++i)
      if (out_[i].moved <= all.moved) return false;  // it would overwrite what has not been sent
    for (int i = 0; i < transfer_.from.count; ++i)
      if (!poll(in_[i], n).data) return false;
    bool all_there = true;
    arrange_sources(transfer_.from, transfer_.then, virtual_rank(), size(), sources_, [&](int i) {
      const received_slot a = take(in_[i], n);
      all_there = all_there && a.data;
      answers_[i] = a.back;
      return a.data;
    });
    if (!all_there) return unclaim(), false;  // somebody has failed
    while_taken([&] {
      combine_pass{args_.compute, size(), sources_, transfer_.from.count + 1, comes_back_ ? answers_ : nullptr,
                   past_cache_}
          .run(part(all.at, all.moved), part(own_, all.moved), n, [this] {
            if (const failure* f = transport().failed()) throw error{*f};
          });
      for (int i = 0; i < transfer_.from.count; ++i) confirm(in_[i]);
    });
    for (int i = 0; i < transfer_.from.count; ++i) release(in_[i]);
    if (args_.then) conclude(part(all.at, all.moved), n);
    done = ++all.moved == pieces_ && others_done;
    return true;
  }

  /// Answers that came back in their slot; and peers that are done with what they were referred to.
  bool collect_some(bool& done) {
    bool some = false;
    for (int i = 0; i < transfer_.to.count; ++i) {
      auto& l = out_[i];
      const auto sent = std::min(l.moved, (l.count + piece_elements_ - 1) / piece_elements_);
      if (l.answered == sent || (!comes_back_ && !l.refers)) continue;
      const auto* const answer = transport().returned(l.peer, l.first + l.answered);
      if (!answer) {
        now().peer = l.peer;
        done = false;
        continue;
      }
      if (comes_back_ && (l.answered_indirectly >> l.answered % 8 & 1) == 0)
        unpack(answer, part(l.answer, l.answered), elements(l, l.answered));
      some = true;
      done &= ++l.answered == sent && l.moved == pieces_;
    }
    return some;
  }

  /// Last comes a part that never travels, because this rank has it and wants it.
  void finish() {
    const int own = virtual_rank();
    if (holds_part(own)) copy_elements(input_of(own, 0), destination(own, 0), whole(own).count, mover{past_cache_});
    if (past_cache_) host_executor::end_past_cache();
    if constexpr (HasBoard<T>)
      if (is_on_board_ && exchanges_) transport().end_board(true);
    end_lending();
  }

  transfer transfer_{};
  peer_stream *out_ = nullptr, *in_ = nullptr;
  source* sources_ = nullptr;
  std::byte** answers_ = nullptr;
  element_position own_{};
  std::size_t pieces_ = 1;
  bool exchanges_, comes_back_, in_place_ = false, past_cache_ = false, lends_ = false, is_on_board_ = false;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a piece of a stream travels to another rank: by an exchange, a board, a slot, a spare buffer or a reference.
#pragma once

#include <kolo/execute/combine_pass.hpp>
#include <kolo/execute/layout.hpp>
#include <kolo/execute/mismatch.hpp>
#include <kolo/execute/pattern.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// The protocols of pieces. A piece takes the cheapest one that its size and its place allow:
///
/// | protocol | when | where the sender writes the piece |
/// |---|---|---|
/// | exchange | both ranks of a pair send one small piece | into the half that it read last; not acknowledged |
/// | board | a rank sends the same to all others | onto its board, once; all of them read it there |
/// | spare buffer | both send, and the peer has as many pieces | into one that it has read: the peer's from now on |
/// | slot | always | into a slot, past the caches, or into a ring, as is fastest; a reply comes back in the slot |
/// | reference | large, and the peer addresses both ends | nowhere: the peer reads and replies in place |
///
/// Sender and receiver need not agree on the place beforehand: each piece specifies it.
///
/// Memory that only its process addresses goes through slots whatever its size. One copy by process_vm_readv would save
/// the second one, but pins page after page: from 256 KiB to 64 MiB it took 1.5 to 4.6 times as long on an AMD EPYC,
/// and 0.8 to 1.4 times on an Intel Xeon (bench/README.md).
template <SharedMemoryTransport T>
class piece_protocols : protected mismatch_checker<T> {
 protected:
  piece_protocols(engine<T>& e, const collective_args& args, operation& o)
      : mismatch_checker<T>{e, args, o},
        exchanges_{args.runs_as == pattern::exchange},
        is_round_trip_{args.runs_as == pattern::there_and_back} {}

  using mismatch_checker<T>::transport, mismatch_checker<T>::now, mismatch_checker<T>::tag, mismatch_checker<T>::args_;

  /// Contiguous elements of a view, and a remote reference to them if peers can address them.
  struct lent_run {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    remote_ref where{};
  };

  /// The stream to one peer, or from one.
  struct peer_stream {
    int peer;
    std::size_t count;                     ///< elements in all
    element_position at, reply{};          ///< the first of them; the destination of the reply
    std::size_t moved = 0, replied = 0;    ///< pieces
    std::uint64_t first = 0;               ///< the number of the first piece
    lent_run lent_source{}, lent_reply{};  ///< the current runs of `at` and `reply`
    bool is_exchange = false, is_lent = false, refers = false;
    std::uint8_t replied_indirectly = 0;  ///< one bit for each of the last eight pieces
  };

  bool combines() const { return transfer_.then != arrival::replace && transfer_.from.count > 0; }
  std::size_t element_bytes() const { return args_.compute.element_bytes; }
  std::size_t elements(const peer_stream& l, std::size_t piece) const {
    const auto first = piece * piece_length_;
    return first >= l.count ? 0 : std::min(piece_length_, l.count - first);
  }
  element_position part(const element_position& p, std::size_t piece) const {
    return {p.where, p.first + piece * piece_length_};
  }

  // To a peer: the next piece of a stream, of n elements. False: there is no space for it yet.

  void exchange(peer_stream& l, std::size_t n) {
    l.moved = pieces_;
    pack(l.at, n, transport().exchange_slot(l.peer));
    transport().post_exchange(l.peer, n * element_bytes(), tag());
  }

  bool put(peer_stream& l, std::size_t n) {
    const auto bytes = n * element_bytes();
    indirect where;
    if (this->may_be_remote(bytes)) {
      begin_lending();
      if (is_round_trip_) where.back = remote_ref_of(l.lent_reply, l, l.reply, n);
      // In place, this rank's result would overwrite the input before it is read, unless the peers reply to it anyway.
      if (!in_place_ || !combines() || is_round_trip_) where.from = remote_ref_of(l.lent_source, l, l.at, n);
    }
    const bool refers = where.from.length != 0 || where.back.length != 0;
    auto* to = refers || (is_round_trip_ && bytes > transport::short_piece) ? transport().reserve(l.peer)
                                                                            : transport().reserve(l.peer, bytes);
    if (!to) return false;
    if (where.from.length == 0) {
      if (const auto* theirs = exchanged_for(l)) {
        auto* const spare = transport().spare_buffer(l.peer);
        if (!spare && theirs->moved < l.moved) return false;  // the peer's next piece brings one
        where.is_spare = spare != nullptr;
        if (spare) to = spare;
      }
      const auto first = part(l.at, l.moved);
      if (is_round_trip_ || where.is_spare) pack(first, n, to);
      else where.stored = transport().one_way(l.peer)(bytes, [&](bool past_cache) { pack(first, n, to, past_cache); });
    }
    l.refers |= refers;
    const auto bit = std::uint8_t(1u << l.moved % 8);
    l.replied_indirectly = std::uint8_t((l.replied_indirectly & ~bit) | (where.back.length != 0 ? bit : 0));
    const auto number = transport().commit(l.peer, bytes, tag(), where);
    if (l.first == 0) l.first = number - l.moved;
    return true;
  }

  /// Posts the next piece to all peers. If no piece has been posted yet and the peers can address them all, posts an
  /// empty one, which announces that all come by reference. Those go through slots: a board does not tell the sender
  /// when its readers are done.
  bool post(peer_stream& l) {
    l.is_lent = l.moved == 0 && is_lent(l);
    const auto n = l.is_lent ? 0 : elements(l, l.moved);
    auto* const to = transport().reserve_board(n * element_bytes(), now().peer);
    if (!to) return false;
    pack(part(l.at, l.moved), n, to);
    transport().post_on_board(n * element_bytes(), tag());
    if (exchanges_) return true;
    transport().end_board(false);
    is_on_board_ = n > 0;
    return true;
  }

  /// Whether the peer wrote the reply to its destination, and not into the slot.
  static bool is_replied_indirectly(const peer_stream& l) { return (l.replied_indirectly >> l.replied % 8 & 1) != 0; }

  void pack(const element_position& p, std::size_t n, std::byte* to, bool past_cache = false) {
    for_each_run(p, n, [&](const std::byte* from, std::size_t done, std::size_t run) {
      mover{past_cache}.copy(to + done * element_bytes(), from, run * element_bytes());
    });
    if (past_cache) core::end_past_cache();
  }

  // From a peer: `poll` checks for the next piece, `take` claims it; `confirm` after it has been read, then `release`.

  received_slot poll(peer_stream& l, std::size_t n) {
    if constexpr (HasBoard<T>)
      if (is_on_board_) {
        const received_slot a = transport().peek_board(l.peer);
        if (!a.data || a.bytes > 0 || a.tag != tag()) return this->expected(a, l.peer, n);
        if (exchanges_) return l.is_lent = true, received_slot{};
        transport().end_board(false);  // the pieces come by reference
        is_on_board_ = false;
      }
    return this->expected(l.is_exchange ? transport().peek_exchange(l.peer) : transport().peek(l.peer), l.peer, n);
  }
  received_slot take(peer_stream& l, std::size_t n) {
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

  void end_lending() {
    if (std::exchange(lends_, false)) transport().end_lending();
  }

  transfer transfer_{};
  peer_stream *out_ = nullptr, *in_ = nullptr;  ///< one per peer; `in_` is one in all if it combines
  std::size_t pieces_ = 1, piece_length_ = 1;   ///< of the longest stream; in elements
  std::size_t posts_ended_ = 0;                 ///< of posts made by all ranks
  bool exchanges_, is_round_trip_, in_place_ = false, is_on_board_ = false;

 private:
  /// The peer's stream, if it sends at least one piece more than this stream has sent; else null. Independent of the
  /// length of the vector: spare buffers stay in the caches, and only the destination is written past them.
  const peer_stream* exchanged_for(const peer_stream& l) const {
    if (!exchanges_) return nullptr;
    const auto& theirs = in_[combines() ? 0 : &l - out_];
    return elements(theirs, l.moved) > 0 ? &theirs : nullptr;
  }

  void begin_lending() {
    if (!std::exchange(lends_, true)) transport().begin_lending();
  }

  bool is_lent(peer_stream& l) {
    constexpr std::size_t few_pieces = 4;
    const auto n = elements(l, 0);
    if (n == 0 || pieces_ < few_pieces || !this->may_be_remote(n * element_bytes())) return false;
    begin_lending();
    return remote_ref_of(l.lent_source, l, l.at, n).length != 0;
  }

  /// The reference to the piece that goes to a peer now, n elements of those that begin at `all`. The transport is
  /// asked once per run of them: if no region contains a whole run, nothing of it is lent.
  remote_ref remote_ref_of(lent_run& run, const peer_stream& l, const element_position& all, std::size_t n) {
    const element_position first = part(all, l.moved);
    const contiguous_run here = first.where->at(first.first);
    if (here.count < n) return {};
    if (here.data < run.begin || run.begin + run.bytes < here.data + n * element_bytes()) {
      run.begin = here.data;
      run.bytes = std::min(here.count, l.count - l.moved * piece_length_) * element_bytes();
      run.where = transport().make_remote_ref(run.begin, run.bytes);
    }
    remote_ref where = run.where;
    where.offset += std::uint64_t(here.data - run.begin);
    return where;
  }

  bool lends_ = false;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

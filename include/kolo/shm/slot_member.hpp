// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The slot protocol of threads and processes: every ordered pair of ranks has a ring of slots in memory that both
// address.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/core/ticks.hpp>
#include <kolo/shm/board_member.hpp>
#include <kolo/shm/sent_pieces.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::shm {

/// A rank that exchanges pieces with its peers; the members of a SharedMemoryTransport that do not depend on the kind
/// of the memory.
///
/// A piece: the sender writes payload, length and tag, and then publishes the piece's number. The receiver polls for
/// the number that it expects, reduces the payload in place, and then publishes how many pieces it has released.
/// Numbers only grow, and every line has one writer. Each ordered pair has two rings: `lines`, each with room for a
/// payload of 96 bytes, and `slots` buffers for longer ones; piece n has line n % lines, and longer ones take the
/// buffers in turn. Between two ranks, pieces of 4 KiB and more that go one way may lie in a third ring. With one round
/// trip in flight at a time, all pieces reuse the same buffer, which is still in the caches.
/// Source: the credit scheme of any ring buffer; order of stores as in Lamport, "Specifying concurrent program
/// modules", 1983.
class slot_member : public board_member {
 public:
  // Slots.

  std::size_t slot_bytes() const { return shape_.slot_bytes; }

  std::byte* reserve(int peer) {
    auto& sent = sent_[std::size_t(peer)];
    if (round_trip_slots_ == 1 && sent.awaited == 0 && sent.number == sent.released) sent.first = sent.number;
    if (!has_place(peer, shape_.slots)) return nullptr;
    sent.awaited = sent.number + 1;
    return buffer(rank_, peer, sent.buffer = sent.next_buffer(shape_));
  }
  std::byte* reserve(int peer, std::size_t bytes) {
    auto& sent = sent_[std::size_t(peer)];
    const bool in_line = bytes <= shape_.line_bytes;
    if (!has_place(peer, in_line ? shape_.lines : shape_.slots)) return nullptr;
    sent.buffer = in_line ? std::uint8_t{0} : sent.next_place(shape_, bytes);
    return in_line ? sent.lines.now().payload() : buffer(rank_, peer, sent.buffer);
  }

  void flush() {
    board_member::flush();
    for (auto rest = std::exchange(to_fetch_, std::uint64_t{0}); rest != 0; rest &= rest - 1)
      if (const int peer = std::countr_zero(rest); first_polls() != 0 && has_place(peer, 2)) fetch_next(peer);
  }

  std::uint64_t commit(int peer, std::size_t bytes, std::uint64_t tag, const indirect& where = {}) {
    auto& sent = sent_[std::size_t(peer)];
    auto& s = sent.lines.now();
    s.tag = tag;
    s.bytes = bytes;
    s.claimed.store(claim_state::offered, std::memory_order_relaxed);
    s.buffer = sent.buffer;
    s.has_source = where.from.length != 0;
    s.has_reply = where.back.length != 0;
    s.spare = where.is_spare ? (spares_[std::size_t(peer)].pop() + 1) & 63 : 0;
    s.stored = where.stored;
    if (s.has_source || s.has_reply) indirect_of(buffer(rank_, peer, sent.buffer), shape_) = where;
    sent.fetched = 0;
    if (!where.is_spare) sent.take_place(shape_, bytes);
    s.number.store(++sent.number, std::memory_order_release);
    sent.lines.advance();
    fetch_next_line(peer, bytes);
    notify(peer);
    const bool is_one_way = sent.awaited != sent.number;
    const bool is_cached = where.stored != core::stored_by::past_cache;
    if (sent.buffer != 0 && !where.is_spare && is_one_way && is_cached) {
      if (bytes <= 512) fetch_next(peer);
      else if (bytes <= sent.most_fetched && peer < 64) to_fetch_ |= std::uint64_t{1} << unsigned(peer);
    }
    return sent.number;
  }

  received_slot peek(int peer) {
    const auto& next = received_[std::size_t(peer)];
    auto& s = next.lines.now();
    return s.number.load(std::memory_order_acquire) == next.number + 1 ? in_place(peer, s) : received_slot{};
  }

  void release(int peer) {
    auto& [number, lines, times] = received_[std::size_t(peer)];
    const auto& s = lines.now();
    auto& its = credit(peer, rank_);
    if (const std::size_t spare = s.spare) spares_[std::size_t(peer)].push(spare - 1);
    if (s.stored != core::stored_by::untimed) {
      times.took(s.stored, float(core::ticks() - reads_since_) / float(s.bytes));
      its.read_time[int(s.stored) - 1].store(times.of(s.stored), std::memory_order_relaxed);
    }
    __builtin_prefetch(&lines.later());
    lines.advance();
    its.released.store(++number, std::memory_order_release);
    notify(peer);
  }

  // Pieces by reference, and pieces with a reply.

  std::uint32_t slots() const { return shape_.slots; }
  std::size_t round_trip_bytes() const { return shape_.round_trip_bytes(); }
  std::uint32_t round_trip_slots() const { return round_trip_slots_; }
  core::one_way_copy& one_way(int peer) { return sent_[std::size_t(peer)].copies; }
  core::one_way_copy& one_way_reply(int peer) { return sent_[std::size_t(peer)].replies; }

  const std::byte* returned(int peer, std::uint64_t number) {
    auto& sent = sent_[std::size_t(peer)];
    if (sent.released < number && released(peer) < number) return nullptr;
    if (sent.awaited == number) sent.awaited = 0;
    return payload(rank_, peer, line(rank_, peer, number - 1));
  }

  void unclaim(int peer) {
    auto taken = claim_state::claimed;
    if (!peek(peer).data) return;
    auto& claimed = received_[std::size_t(peer)].lines.now().claimed;
    if (claimed.compare_exchange_strong(taken, claim_state::offered) || taken != claim_state::revoked) return;
    claimed.store(claim_state::cancelled, std::memory_order_release);
  }

  bool cancel(int peer) {
    bool all = true;
    for (auto number = released(peer); number < sent_[std::size_t(peer)].number; ++number) {
      auto offered = claim_state::offered;
      all &= line(rank_, peer, number).claimed.compare_exchange_strong(offered, claim_state::cancelled) ||
             offered != claim_state::claimed || is_gone(peer, peer);
    }
    return all;
  }

  std::byte* spare_buffer(int peer) {
    const auto& mine = spares_[std::size_t(peer)];
    return mine.is_empty() ? nullptr : spare_of(base_.get(), shape_, rank_, peer, mine.top());
  }

  // Exchanges.

  std::size_t exchange_bytes() const { return shape_.exchange_bytes(); }
  std::byte* exchange_slot(int peer) { return exchanges_[std::size_t(peer)].mine().payload(); }

  void post_exchange(int peer, std::size_t bytes, std::uint64_t tag) {
    const auto& e = exchanges_[std::size_t(peer)];
    auto& s = e.mine();
    s.tag = tag;
    s.bytes = bytes;
    s.number.store(e.number + 1, std::memory_order_release);
    notify(peer);
  }

  received_slot peek_exchange(int peer) {
    const auto& e = exchanges_[std::size_t(peer)];
    auto& s = e.theirs();
    if (s.number.load(std::memory_order_acquire) != e.number + 1) return {};
    return {s.payload(), s.bytes, s.tag};
  }

  void end_exchange(int peer) { ++exchanges_[std::size_t(peer)].number; }

 protected:
  [[gnu::cold, gnu::noinline]] slot_member(std::shared_ptr<std::byte> base, const region_shape& shape, int rank,
                                           bool is_recorded)
      : board_member{std::move(base), shape, rank, is_recorded},
        sent_(std::size_t(shape.ranks)),
        received_(sent_.size()),
        exchanges_(sent_.size()),
        spares_(sent_.size()) {
    for (int peer = 0; peer < shape.ranks; ++peer) {
      spares_[std::size_t(peer)] = {shape, rank, peer};
      if (peer == rank) continue;
      sent_[std::size_t(peer)].lines = {&line(rank, peer, 0), shape.lines};
      received_[std::size_t(peer)].lines = {&line(peer, rank, 0), shape.lines};
      auto& halves = exchanges_[std::size_t(peer)].halves;
      halves[0] = &exchange_of(base_.get(), shape_, rank, peer, 0);
      halves[1] = &exchange_of(base_.get(), shape_, rank, peer, 1);
    }
  }

  struct receipt {
    std::uint64_t number = 0;  ///< of pieces that were released
    lines_in_turn lines{};
    core::time_of_ways times{};
  };

  edge_credit& credit(int from, int to) const { return credit_of(base_.get(), shape_, from, to); }
  slot& line(int from, int to, std::uint64_t number) const { return slot_of(base_.get(), shape_, from, to, number); }
  std::byte* buffer(int from, int to, std::size_t n) const { return buffer_of(base_.get(), shape_, from, to, n); }
  std::uint64_t released(int peer) {
    return sent_[std::size_t(peer)].released = credit(rank_, peer).released.load(std::memory_order_acquire);
  }
  /// A piece without references.
  received_slot in_place(int peer, slot& s) const {
    auto* const data =
        s.spare != 0 ? spare_of(base_.get(), shape_, rank_, peer, s.spare - std::size_t{1}) : payload(peer, rank_, s);
    return {data, s.bytes, s.tag, data, s.spare == 0 && s.buffer > shape_.slots};
  }

  core::dynarray<sent_pieces> sent_;
  core::dynarray<receipt> received_;
  std::uint64_t reads_since_ = 0;  ///< when the last one was claimed: those claimed before waited for it

 private:
  /// Exchanges with a peer: how many have ended; and the halves, in the order in which this rank writes them.
  struct exchange_progress {
    std::uint64_t number = 0;
    slot* halves[2]{};
    slot& mine() const { return *halves[number % 2]; }
    slot& theirs() const { return *halves[(number + 1) % 2]; }
  };

  std::byte* payload(int from, int to, slot& s) const {
    return s.buffer != 0 ? buffer(from, to, s.buffer) : s.payload();
  }

  /// Whether fewer pieces than that are in flight.
  bool has_place(int peer, std::uint32_t most) {
    auto& sent = sent_[std::size_t(peer)];
    if (sent.number - sent.released < most) return true;
    const auto in_flight = sent.number - released(peer);
    auto& read = credit(rank_, peer).read_time;
    for (int i = 0; i < 3; ++i)
      sent.copies.reader_takes(core::stored_by(i + 1), read[i].load(std::memory_order_relaxed));
    return in_flight < most;
  }

  static constexpr std::size_t cache_line = 64;
  void fetch_next_line(int peer, std::size_t bytes) {
    auto* const next = reinterpret_cast<std::byte*>(&sent_[std::size_t(peer)].lines.now());
    KOLO_PREFETCH_TO_WRITE(next);
    if (bytes > cache_line - 32 && bytes <= shape_.line_bytes) KOLO_PREFETCH_TO_WRITE(next + cache_line);
  }
  /// Fetches the lines of the next slot for a piece that goes one way, probably as long as the last one, which the peer
  /// reads meanwhile: a broadcast of 1 to 16 KiB takes 0.6 to 0.9 of the time (Intel Xeon).
  [[gnu::noinline]] void fetch_next(int peer) {
    auto& sent = sent_[std::size_t(peer)];
    auto* const next = buffer(rank_, peer, sent.next_buffer(shape_));
    sent.fetched = std::min(sent.last, sent.most_fetched);
    for (std::size_t at = 0; at < sent.fetched; at += cache_line) KOLO_PREFETCH_TO_WRITE(next + at);
  }

  std::uint32_t round_trip_slots_ = shape_.round_trip_slots();
  std::uint64_t to_fetch_ = 0;  ///< a bit for each peer whose next slot is fetched once this rank has sent everything
  core::dynarray<exchange_progress> exchanges_;
  core::dynarray<spares_owned> spares_;  ///< with each peer
};

}  // namespace kolo::inline KOLO_ABI::detail::shm

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The slot protocol of threads and processes: every ordered pair of ranks has a ring of slots in memory that both
// address.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/core/text.hpp>
#include <kolo/core/ticks.hpp>
#include <kolo/shm/board_member.hpp>
#include <kolo/shm/group.hpp>
#include <kolo/shm/lending.hpp>
#include <kolo/shm/mapping.hpp>
#include <kolo/shm/new_region.hpp>
#include <kolo/shm/parts.hpp>
#include <kolo/shm/region.hpp>
#include <kolo/shm/sent_pieces.hpp>
#include <kolo/shm/shared_heap.hpp>
#include <kolo/shm/shrink.hpp>
#include <kolo/transport/small_exchange.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::shm {

/// Over a Mapping (`private_mapping` among threads, `shared_mapping` among processes); models SharedMemoryTransport.
///
/// A piece: the sender writes payload, length and tag, and then publishes the piece's number. The receiver polls for
/// the number that it expects, reduces the payload in place, and then publishes how many pieces it has released.
/// Numbers only grow, and every line has one writer. Each ordered pair has two rings: `lines`, each with room for a
/// payload of 96 bytes, and `slots` buffers for longer ones; piece n has line n % lines, and longer ones take the
/// buffers in turn. Between two ranks, pieces of 4 KiB and more that go one way may lie in a third ring. With one round
/// trip in flight at a time, all pieces reuse the same buffer, which is still in the caches.
/// Source: the credit scheme of any ring buffer; order of stores as in Lamport, "Specifying concurrent program
/// modules", 1983.
template <class Memory>
class slot_transport : public board_member {
  static_assert(Mapping<Memory>);

 public:
  using abilities = kolo::abilities<ability::shrink, ability::grow, ability::flush, ability::checks, ability::recorder,
                                    ability::exits, ability::identity, ability::lending, ability::heap, ability::board>;
  using options = call_options;

  /// Rank `rank` of the communicator in `region` of `memory`, which `initialise` has prepared. Errors  mismatch: there
  /// is no such region there; out_of_resources.
  [[gnu::cold, gnu::noinline]] slot_transport(Memory memory, std::uint64_t region, const region_shape& shape, int rank)
      : board_member{memory.map(region, shape.bytes()), shape, rank, is_recorded},
        memory_{std::move(memory)},
        region_{region},
        sent_(std::size_t(shape.ranks)),
        received_(sent_.size()),
        exchanges_(sent_.size()),
        spares_(sent_.size()),
        lent_by_(sent_.size()) {
    for (int peer = 0; peer < shape.ranks; ++peer) {
      spares_[std::size_t(peer)] = {shape, rank, peer};
      if (peer == rank) continue;
      sent_[std::size_t(peer)].lines = {&slot(rank, peer, 0), shape.lines};
      received_[std::size_t(peer)].lines = {&slot(peer, rank, 0), shape.lines};
      auto& halves = exchanges_[std::size_t(peer)].halves;
      halves[0] = &exchange_of(base_.get(), shape_, rank, peer, 0);
      halves[1] = &exchange_of(base_.get(), shape_, rank, peer, 1);
    }
    come();
  }
  slot_transport(slot_transport&&) noexcept = default;
  ~slot_transport() {
    if (leave()) memory_.discard(region_, shape_.bytes());
  }

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
    s.tag = tag, s.bytes = bytes;
    s.claimed.store(claim_state::offered, std::memory_order_relaxed);
    s.buffer = sent.buffer;
    s.has_source = where.from.length != 0, s.has_reply = where.back.length != 0;
    s.spare = where.is_spare ? (spares_[std::size_t(peer)].pop() + 1) & 63 : 0;
    s.stored = where.stored;
    if (s.has_source || s.has_reply) indirect_of(buffer(rank_, peer, sent.buffer), shape_) = where;
    sent.fetched = 0;
    if (!where.is_spare) sent.take_place(shape_, bytes);
    s.number.store(++sent.number, std::memory_order_release);
    sent.lines.advance();
    fetch_next_line(peer, bytes);
    notify(peer);
    const bool is_one_way = sent.awaited != sent.number, is_cached = where.stored != core::stored_by::past_cache;
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
  remote_ref make_remote_ref(const std::byte* data, std::size_t bytes) { return memory_.make_remote_ref(data, bytes); }

  const std::byte* returned(int peer, std::uint64_t number) {
    auto& sent = sent_[std::size_t(peer)];
    if (sent.released < number && released(peer) < number) return nullptr;
    if (sent.awaited == number) sent.awaited = 0;
    return payload(rank_, peer, slot(rank_, peer, number - 1));
  }

  received_slot claim(int peer) {
    auto& s = received_[std::size_t(peer)].lines.now();
    if (s.stored != core::stored_by::untimed) reads_since_ = core::ticks();
    if (!s.has_source && !s.has_reply) return in_place(peer, s);
    auto offered = claim_state::offered;
    if (!s.claimed.compare_exchange_strong(offered, claim_state::claimed)) return {};
    auto* const at = buffer(peer, rank_, s.buffer);
    const auto& r = indirect_of(at, shape_);
    auto& lent = lent_by_[std::size_t(peer)];
    auto* const back = s.has_reply ? lent.back.resolve(memory_, r.back, s.bytes) : at;
    return {s.has_source ? lent.from.resolve(memory_, r.from, s.bytes) : at, s.bytes, s.tag, back};
  }

  void unclaim(int peer) {
    auto taken = claim_state::claimed;
    if (!peek(peer).data) return;
    auto& claimed = received_[std::size_t(peer)].lines.now().claimed;
    if (claimed.compare_exchange_strong(taken, claim_state::offered) || taken != claim_state::revoked) return;
    claimed.store(claim_state::cancelled, std::memory_order_release);
  }

  bool still_claims(int peer) {
    if constexpr (!Secluding<Memory>) return true;
    auto& s = received_[std::size_t(peer)].lines.now();
    auto taken = claim_state::claimed;  // an exchange is ordered after all reads before it
    return (!s.has_source && !s.has_reply) || s.claimed.compare_exchange_strong(taken, claim_state::claimed);
  }

  bool cancel(int peer) {
    bool all = true;
    for (auto number = released(peer); number < sent_[std::size_t(peer)].number; ++number) {
      auto offered = claim_state::offered;
      all &= slot(rank_, peer, number).claimed.compare_exchange_strong(offered, claim_state::cancelled) ||
             offered != claim_state::claimed || is_gone(peer, peer);
    }
    return all;
  }

  [[gnu::cold, gnu::noinline]] bool revoke(int peer) {
    if constexpr (Secluding<Memory>)  // else the peer is a thread of this process
      for (auto number = released(peer); number < sent_[std::size_t(peer)].number; ++number) {
        auto taken = claim_state::claimed;
        slot(rank_, peer, number).claimed.compare_exchange_strong(taken, claim_state::revoked);
      }
    return Secluding<Memory>;
  }

  [[gnu::cold, gnu::noinline]] std::size_t buffers_in_use() {
    std::size_t n = 0;
    for (int peer = 0; failed() && peer < size(); ++peer)
      for_each_revoked(peer, [&](const revoked_piece& p) { n += p.is_in_use(memory_) ? 1u : 0u; });
    core::erase_if(lent_before_, [this](const revoked_piece& p) { return !p.is_in_use(memory_); });
    return n + lent_before_.size();
  }

  std::byte* spare_buffer(int peer) {
    const auto& mine = spares_[std::size_t(peer)];
    return mine.is_empty() ? nullptr : spare_of(base_.get(), shape_, rank_, peer, mine.top());
  }

  void begin_lending() {
    if constexpr (Secluding<Memory>) memory_.begin_lending();
  }
  void end_lending() {
    if constexpr (Secluding<Memory>) memory_.end_lending();
  }

  // Exchanges.

  std::size_t exchange_bytes() const { return shape_.exchange_bytes(); }
  std::byte* exchange_slot(int peer) { return exchanges_[std::size_t(peer)].mine().payload(); }

  void post_exchange(int peer, std::size_t bytes, std::uint64_t tag) {
    const auto& e = exchanges_[std::size_t(peer)];
    auto& s = e.mine();
    s.tag = tag, s.bytes = bytes;
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

  // Groups.

  /// See communicator::split. Cost  three small exchanges through rank 0, and a region.
  slot_transport split(int color, int key) {
    std::optional<group_region<Memory>> made;  // destroyed after the others are notified of a failure
    return transport::sharing_failure(*this, "split", [&] {
      const auto group = transport::group_of(*this, color, key);
      const auto shape = shape_.subset(int(group.size()));
      const int mine = int(std::find(group.begin(), group.end(), rank_) - group.begin());
      const std::uint64_t region = mine == 0 ? made.emplace(memory_, shape).number() : 0;
      const auto regions = transport::small_allgather(*this, region, "split");
      slot_transport child{memory_, regions[std::size_t(group[0])], shape, mine};
      child.heap_ = heap();
      child.share_cores_of(*this);
      transport::small_barrier(*this, "split");
      return child;
    });
  }

  /// See communicator::shrink; a rank waits for the others for at most twice `timeout`, and again for each of them that
  /// is lost meanwhile.
  slot_transport shrink(std::chrono::nanoseconds timeout) {
    wait_context s{.operation = "shrink", .peer = rank_};
    if (state_of_rank(rank_).wants_shrink.load(std::memory_order_relaxed) != 0)
      throw error{failure_from(s, errc::invalid_argument, rank_, {},
                               "it was called before: use the communicator that it returned")};
    fail(failure_from(s, errc::peer_failed, rank_, {},
                      core::text_of({"rank ", rank_, " calls shrink, so nothing else goes on here"})));
    survivors<Memory> all{memory_, base_.get(), shape_, rank_};
    try {
      const auto mine = all.agree(timeout);
      if (mine.rank < 0)
        throw error{
            failure_from(s, errc::timeout, rank_, {},
                         core::text_of({"rank ", rank_, " came too late: the others have continued without it"}))};
      slot_transport next{memory_, mine.region, mine.shape, mine.rank};
      next.heap_ = heap();
      next.lent_before_ = lent_before_;
      for (int peer = 0; peer < size(); ++peer)
        for_each_revoked(peer, [&](const revoked_piece& p) { next.lent_before_.push_back(p); });
      const bool are_all = all.all_have_come(next.base_.get(), mine, timeout);
      if (are_all && mine.rank == 0) memory_.seal(mine.region);
      return are_all ? std::move(next) : next.shrink(timeout);
    } catch (...) {
      all.leave();
      throw;
    }
  }

  /// See communicator::grow; `timeout` applies to the newcomers, and to each step that they have to do. (impl/grow.hpp)
  slot_transport grow(std::string_view meeting, int newcomers, std::chrono::nanoseconds timeout);
  /// Called by a newcomer: waits until the members have found that all have come.
  void await_confirmation(const wait_context& s) {
    for (backoff p; head_of(base_.get()).is_whole.load(std::memory_order_acquire) == 0;) transport::relax(*this, p, s);
  }

  /// Memory that the others address, for this rank to allocate from (see shm::heap); communicators split off share it.
  const resource_pointer& heap() {
    if (!heap_) heap_ = heap_of(memory_);
    return heap_;
  }

  /// See SharesMemory.
  parts symmetric(std::size_t bytes) { return make_parts(*this, memory_, bytes); }

 private:
  static constexpr bool is_recorded = !requires { Memory::is_unrecorded; };
  struct receipt {
    std::uint64_t number = 0;  ///< of pieces that were released
    lines_in_turn lines{};
    core::time_of_ways times{};
  };
  /// Exchanges with a peer: how many have ended; and the halves, in the order in which this rank writes them.
  struct exchange_progress {
    std::uint64_t number = 0;
    shm::slot* halves[2]{};
    shm::slot& mine() const { return *halves[number % 2]; }
    shm::slot& theirs() const { return *halves[(number + 1) % 2]; }
  };

  edge_credit& credit(int from, int to) const { return credit_of(base_.get(), shape_, from, to); }
  shm::slot& slot(int from, int to, std::uint64_t number) const {
    return slot_of(base_.get(), shape_, from, to, number);
  }
  std::byte* buffer(int from, int to, std::size_t n) const { return buffer_of(base_.get(), shape_, from, to, n); }
  std::byte* payload(int from, int to, shm::slot& s) const {
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

  /// A piece without references.
  received_slot in_place(int peer, shm::slot& s) const {
    auto* const data =
        s.spare != 0 ? spare_of(base_.get(), shape_, rank_, peer, s.spare - std::size_t{1}) : payload(peer, rank_, s);
    return {data, s.bytes, s.tag, data, s.spare == 0 && s.buffer > shape_.slots};
  }

  /// Pieces that a peer has claimed, and that were revoked.
  [[gnu::cold, gnu::noinline]] void for_each_revoked(int peer, auto f) {
    if (peer == rank_) return;  // no slots
    for (auto number = released(peer); number < sent_[std::size_t(peer)].number; ++number)
      if (auto& s = slot(rank_, peer, number); s.claimed.load(std::memory_order_acquire) == claim_state::revoked)
        f(revoked_piece{base_, &s, &indirect_of(buffer(rank_, peer, s.buffer), shape_), &credit(rank_, peer).released,
                        number, &state_of_rank(peer)});
  }
  std::uint64_t released(int peer) {
    return sent_[std::size_t(peer)].released = credit(rank_, peer).released.load(std::memory_order_acquire);
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

  Memory memory_;
  std::uint64_t region_;
  std::uint32_t round_trip_slots_ = shape_.round_trip_slots();
  resource_pointer heap_;
  core::dynarray<sent_pieces> sent_;
  std::uint64_t to_fetch_ = 0;  ///< a bit for each peer whose next slot is fetched once this rank has sent everything
  core::dynarray<receipt> received_;
  std::uint64_t reads_since_ = 0;  ///< when the last one was claimed: those claimed before waited for it
  core::dynarray<exchange_progress> exchanges_;
  core::dynarray<spares_owned> spares_;       ///< with each peer
  core::dynarray<lent_regions> lent_by_;      ///< the regions that each peer has referred to last
  std::vector<revoked_piece> lent_before_{};  ///< by the communicator that this one was shrunk from
};

}  // namespace kolo::inline KOLO_ABI::detail::shm

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The slot protocol of threads and processes: for every ordered pair of ranks a ring of slots in memory that both address.
#pragma once

#include <kolo/transport/bell.hpp>
#include <kolo/transport/heap.hpp>
#include <kolo/transport/liveness.hpp>
#include <kolo/transport/mapping.hpp>
#include <kolo/transport/region.hpp>
#include <kolo/transport/small_exchange.hpp>
#include <kolo/transport/survivors.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace kolo::inline v0 {

/// Over a Mapping (`private_mapping` among threads, `shared_mapping` among processes); models Slotted.
///
/// A piece: the sender writes payload, length and tag into a slot and then publishes the slot's sequence number; the receiver
/// finds the number that it expects, reduces out of the slot, and then publishes how many slots it has released. Numbers only
/// grow, every line has one writer, and a slot's first 32 payload bytes share the line of its number.
/// Source: the credit scheme of any ring buffer; order of stores as in Lamport, "Specifying concurrent program modules", 1983.
template <Mapping Memory>
class mailbox {
 public:
  struct options {
    std::chrono::nanoseconds timeout{};  ///< of this call; 0: the communicator's
  };

  /// Rank `rank` of the communicator in `region` of `memory`, which `initialise` has prepared.
  mailbox(Memory memory, std::uint64_t region, detail::region_shape shape, int rank)
      : memory_{std::move(memory)}, region_{region}, shape_{shape}, rank_{rank},
        base_{memory_.map(region, shape.bytes())}, sent_(static_cast<std::size_t>(shape.ranks)), received_(sent_.size()), swaps_(sent_.size()) {
    to_ring_.reserve(2 * sent_.size());
    crowded_ = detail::usable_cores() < shape_.ranks;
    exceptions_ = std::uncaught_exceptions();
    board(rank_).id = this_process();
    board(rank_).present.store(detail::presence::here, std::memory_order_release);
  }
  mailbox(mailbox&&) noexcept = default;
  ~mailbox() { leave(); }

  int rank() const { return rank_; }
  int size() const { return shape_.ranks; }
  placement place() const { return shape_.place(rank_); }
  std::chrono::nanoseconds timeout() const { return shape_.timeout; }
  bool is_checked() const { return shape_.checked; }

  /// What that rank did last; null where the memory is not for such things.
  std::shared_ptr<detail::flight_recorder> recorder(int r) const {
    if constexpr (requires { Memory::is_unrecorded; }) return nullptr;
    else return {base_, &detail::recorder_of(base_.get(), shape_, r)};
  }

  // Failure: the first one stays.

  const failure* failed() const { return head().failed.load(std::memory_order_acquire) == detail::failure_set ? &head().first : nullptr; }

  const failure& fail(const failure& f) {
    auto& state = head().failed;
    for (std::uint32_t said = detail::no_failure; said != detail::failure_set;) {
      if (said != detail::no_failure && is_alive(board(static_cast<int>(said - detail::failure_being_set)).id)) {
        ::sched_yield();
        said = state.load(std::memory_order_acquire);
      } else if (state.compare_exchange_strong(said, detail::failure_being_set + static_cast<std::uint32_t>(rank_))) {
        head().first = f;
        state.store(said = detail::failure_set, std::memory_order_seq_cst);
        for (int r = 0; r < size(); ++r) board(r).alarm.wake();
      }
    }
    return head().first;
  }

  // Waiting.

  /// Wakes whoever sleeps for what has been published since the last time.
  void flush() {
    if (to_ring_.empty()) return;
    detail::bell::before_ringing();
    for (const int peer : to_ring_) board(peer).alarm.ring();
    to_ring_.clear();
  }

  void relax(patience& p, const situation& s) {
    flush();
    const int spins = crowded_ ? 1 : 2000, yields = crowded_ ? 8 : 16;
    const int look = p.looks++;
    if (look < spins) return KOLO_PAUSE();
    if (look < spins + yields) return void(::sched_yield());
    if (look == spins + yields) {
      p.bell = board(rank_).alarm.arm();
      return;  // to one more look
    }
    check(p, s);
    board(rank_).alarm.sleep(p.bell, longest_sleep);
    p.looks = spins + yields;
  }

  void check(patience& p, const situation& s) {
    flush();
    if (const failure* f = failed()) throw error{*f};
    const auto now = patience::clock::now();
    if (p.since == patience::clock::time_point{}) p.since = p.checked = now;
    const auto waited = now - p.since;
    if (waited > s.timeout)
      give_up(errc::timeout, s, waited, "rank " + std::to_string(s.peer) + " is late: nothing came from it within " + seconds(s.timeout) + last_operation(s.peer));
    if (now - p.checked < longest_sleep / 2) return;
    p.checked = now;
    const bool sure = std::exchange(p.suspicious, false);
    for (int r = 0; r < size(); ++r) {
      if (!is_gone(r, s.peer)) continue;
      p.suspicious = true;  // it may have done its part before: look once more
      if (!sure) continue;
      const bool left = board(r).present.load(std::memory_order_acquire) == detail::presence::left;
      give_up(left ? errc::peer_left : errc::peer_died, situation{s.operation, s.sequence, s.round, r, s.timeout}, waited,
              "rank " + std::to_string(r) + (left ? " has destroyed its communicator, and is still waited for" : " died") + last_operation(r));
    }
  }

  /// Has that rank ended; or left, if it is awaited?
  bool is_gone(int r, int awaited) const {
    if (r == rank_) return false;
    switch (board(r).present.load(std::memory_order_acquire)) {
      case detail::presence::dead: return true;
      case detail::presence::left: return r == awaited;
      case detail::presence::here: return !is_alive(board(r).id);
      default: return false;
    }
  }

  // Slots.

  std::size_t slot_bytes() const { return shape_.slot_bytes; }

  std::byte* reserve(int peer) {
    auto& sent = sent_[static_cast<std::size_t>(peer)];
    if (sent.number - sent.released == shape_.slots && sent.number - released(peer) == shape_.slots) return nullptr;
    return slot(rank_, peer, sent.number).payload();
  }

  std::uint64_t commit(int peer, std::size_t bytes, std::uint64_t tag, const elsewhere& where = {}) {
    auto& number = sent_[static_cast<std::size_t>(peer)].number;
    auto& s = slot(rank_, peer, number);
    s.tag = tag;
    s.bytes = bytes;
    s.claimed.store(detail::claim::offered, std::memory_order_relaxed);
    s.is_elsewhere = where.from.length != 0;
    s.goes_elsewhere = where.back.length != 0;
    if (s.is_elsewhere || s.goes_elsewhere) detail::elsewhere_of(s, shape_) = where;
    s.number.store(++number, std::memory_order_release);
    fetch_next(peer, bytes);
    ring(peer);
    return number;
  }

  arrived peek(int peer) {
    const auto number = received_[static_cast<std::size_t>(peer)];
    auto& s = slot(peer, rank_, number);
    if (s.number.load(std::memory_order_acquire) != number + 1) return {};
    return {s.payload(), s.bytes, s.tag, s.payload()};
  }

  void release(int peer) {
    credit(peer, rank_).released.store(++received_[static_cast<std::size_t>(peer)], std::memory_order_release);
    ring(peer);
  }

  // Pieces by reference, and pieces that come back.

  std::uint32_t slots() const { return shape_.slots; }
  reference refer(const std::byte* data, std::size_t bytes) { return memory_.refer(data, bytes); }

  const std::byte* returned(int peer, std::uint64_t number) {
    if (sent_[static_cast<std::size_t>(peer)].released < number && released(peer) < number) return nullptr;
    return slot(rank_, peer, number - 1).payload();
  }

  arrived take(int peer) {
    auto& s = slot(peer, rank_, received_[static_cast<std::size_t>(peer)]);
    if (!s.is_elsewhere && !s.goes_elsewhere) return {s.payload(), s.bytes, s.tag, s.payload()};
    auto offered = detail::claim::offered;
    if (!s.claimed.compare_exchange_strong(offered, detail::claim::taken)) return {};
    const auto& r = detail::elsewhere_of(s, shape_);
    auto* const back = s.goes_elsewhere ? memory_.resolve(r.back, s.bytes) : s.payload();
    return {s.is_elsewhere ? memory_.resolve(r.from, s.bytes) : s.payload(), s.bytes, s.tag, back};
  }

  void let_go(int peer) {
    auto taken = detail::claim::taken;
    if (peek(peer).data) slot(peer, rank_, received_[static_cast<std::size_t>(peer)]).claimed.compare_exchange_strong(taken, detail::claim::offered);
  }

  bool withdraw(int peer) {
    bool all = true;
    for (auto number = released(peer); number < sent_[static_cast<std::size_t>(peer)].number; ++number) {
      auto offered = detail::claim::offered;
      all &= slot(rank_, peer, number).claimed.compare_exchange_strong(offered, detail::claim::withdrawn) ||
             offered == detail::claim::withdrawn || is_gone(peer, peer);
    }
    return all;
  }

  // Swapping.

  std::size_t swap_bytes() const { return shape_.swap_bytes(); }
  std::byte* swap_place(int peer) { return swap_slot(rank_, peer).payload(); }

  void swap(int peer, std::size_t bytes, std::uint64_t tag) {
    auto& s = swap_slot(rank_, peer);
    s.tag = tag;
    s.bytes = bytes;
    s.number.store(swaps_[static_cast<std::size_t>(peer)] + 1, std::memory_order_release);
    ring(peer);
  }

  arrived swapped(int peer) {
    auto& s = swap_slot(peer, rank_);
    if (s.number.load(std::memory_order_acquire) != swaps_[static_cast<std::size_t>(peer)] + 1) return {};
    return {s.payload(), s.bytes, s.tag};
  }

  void end_swap(int peer) { ++swaps_[static_cast<std::size_t>(peer)]; }

  // Groups.

  mailbox split(int color, int key) {
    const auto group = detail::group_of(*this, color, key);
    const auto shape = shape_.subset(static_cast<int>(group.size()));
    const int mine = static_cast<int>(std::find(group.begin(), group.end(), rank_) - group.begin());
    std::vector<std::uint64_t> regions(static_cast<std::size_t>(size()));
    std::shared_ptr<std::byte> keep;
    if (mine == 0) {
      regions[static_cast<std::size_t>(rank_)] = initialise(memory_, shape);
      keep = memory_.map(regions[static_cast<std::size_t>(rank_)], shape.bytes());
    }
    detail::share(*this, regions.data(), sizeof(std::uint64_t));
    const auto region = regions[static_cast<std::size_t>(group[0])];
    mailbox child{memory_, region, shape, mine};
    child.heap_ = heap();
    detail::everybody_is_here(*this);
    if (mine == 0) memory_.settle(region);
    return child;
  }

  /// See communicator::shrink; a rank waits for the others for twice `timeout` at the most, and again as often as one of them is lost meanwhile.
  mailbox shrink(std::chrono::nanoseconds timeout) {
    situation s{.operation = "shrink", .peer = rank_};
    if (std::exchange(went_on_, true) && board(rank_).asks_to_shrink.load(std::memory_order_relaxed) != 0)
      throw error{failure_in(s, errc::invalid_argument, rank_, {}, "it was called before, and what it returned is where the survivors go on")};
    fail(failure_in(s, errc::peer_failed, rank_, {}, "rank " + std::to_string(rank_) + " calls shrink, so nothing else goes on here"));
    detail::survivors<Memory> all{memory_, base_.get(), shape_, rank_};
    const auto seat = all.agree(timeout);
    if (seat.rank < 0)
      throw error{failure_in(s, errc::timeout, rank_, {}, "rank " + std::to_string(rank_) + " came too late: the others have gone on without it")};
    mailbox next{memory_, seat.region, seat.shape, seat.rank};
    next.heap_ = heap();
    next.went_on_ = true;
    if (!all.all_have_come(next.base_.get(), seat, timeout)) return next.shrink(timeout);
    if (seat.rank == 0) memory_.settle(seat.region);
    return next;
  }
  /// Has shrunk, or is what is left of another one that has.
  bool went_on() const { return went_on_; }

  /// Memory that the others address, for this rank to allocate from (see shm::heap); groups that are split off share it.
  const detail::resource_pointer& heap() {
    if (!heap_) heap_ = detail::heap_of(memory_);
    return heap_;
  }

  /// Memory of which every rank has a part that all ranks address (see SharesMemory).
  struct parts {
    std::shared_ptr<std::byte> owner;
    std::size_t stride;
    std::byte* part(int rank) const { return owner.get() + detail::page + static_cast<std::size_t>(rank) * stride; }
  };
  parts symmetric(std::size_t bytes) {
    struct said {
      std::uint64_t bytes, region;
    };
    std::vector<said> all(static_cast<std::size_t>(size()));
    const auto stride = (bytes + detail::page - 1) / detail::page * detail::page;
    const auto total = detail::page + stride * all.size();
    std::shared_ptr<std::byte> base;
    all[static_cast<std::size_t>(rank_)] = {bytes, rank_ == 0 ? memory_.reserve(total) : 0};
    if (rank_ == 0) base = memory_.map(all[0].region, total);
    detail::share(*this, all.data(), sizeof(said));
    for (int r = 0; r < size(); ++r)
      if (all[static_cast<std::size_t>(r)].bytes != bytes)
        throw error{errc::invalid_argument, "symmetric memory is as long on every rank: " + std::to_string(bytes) + " bytes here, " +
                                                std::to_string(all[static_cast<std::size_t>(r)].bytes) + " on rank " + std::to_string(r)};
    if (!base) base = memory_.map(all[0].region, total);
    detail::everybody_is_here(*this);
    if (rank_ == 0) memory_.settle(all[0].region);
    const auto leave_part = [memory = memory_, base, region = all[0].region, total, ranks = static_cast<std::uint32_t>(size())](std::byte*) mutable {
      auto& gone = *reinterpret_cast<std::atomic<std::uint32_t>*>(base.get());  // the first page counts who has dropped it
      if (gone.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks) memory.discard(region, total);
    };
    return {{base.get(), leave_part}, stride};
  }

  /// A fresh region for a communicator of that shape. One rank does it; the others attach by its number.
  static std::uint64_t initialise(Memory& memory, const detail::region_shape& shape) {
    const auto region = memory.reserve(shape.bytes());
    const auto base = memory.map(region, shape.bytes());
    detail::construct_region(base.get(), shape);
    return region;
  }

  /// What a parent says to the others when it sees a rank die.
  static void announce_death(Memory& memory, std::uint64_t region, const detail::region_shape& shape, int rank) {
    const auto base = memory.map(region, shape.bytes());
    detail::board_of(base.get(), rank).present.store(detail::presence::dead, std::memory_order_release);
    for (int r = 0; r < shape.ranks; ++r) detail::board_of(base.get(), r).alarm.wake();
  }

  /// Who the ranks are, where that is known before they attach.
  static void introduce(Memory& memory, std::uint64_t region, const detail::region_shape& shape, const std::vector<process_id>& members) {
    const auto base = memory.map(region, shape.bytes());
    for (int r = 0; r < shape.ranks; ++r) {
      detail::board_of(base.get(), r).id = members[static_cast<std::size_t>(r)];
      detail::board_of(base.get(), r).present.store(detail::presence::here, std::memory_order_release);
    }
  }

 private:
  static constexpr std::chrono::milliseconds longest_sleep{50};
  struct progress {
    std::uint64_t number = 0, released = 0;
  };

  detail::region_head& head() const { return detail::head_of(base_.get()); }
  detail::rank_board& board(int r) const { return detail::board_of(base_.get(), r); }
  detail::edge_credit& credit(int from, int to) const { return detail::credit_of(base_.get(), shape_, from, to); }
  detail::slot& slot(int from, int to, std::uint64_t number) const { return detail::slot_of(base_.get(), shape_, from, to, number); }
  detail::slot& swap_slot(int from, int to) const {
    return detail::swap_of(base_.get(), shape_, from, to, swaps_[static_cast<std::size_t>(from == rank_ ? to : from)]);
  }
  std::uint64_t released(int peer) {
    return sent_[static_cast<std::size_t>(peer)].released = credit(rank_, peer).released.load(std::memory_order_acquire);
  }
  /// The next slot's lines, which the peer read last, if they are few: the next piece probably is as short as this one.
  void fetch_next(int peer, std::size_t bytes) {
    constexpr std::size_t line = 64, few = 8;
    if (bytes > few * line) return;
    auto* const next = reinterpret_cast<std::byte*>(&slot(rank_, peer, sent_[static_cast<std::size_t>(peer)].number));
    for (std::size_t at = 0; at < bytes + 32; at += line) KOLO_PREFETCH_TO_WRITE(next + at);
  }
  void ring(int peer) {
    if (!to_ring_.empty() && to_ring_.back() == peer) return;
    if (to_ring_.size() == to_ring_.capacity()) flush();  // allocates nothing
    to_ring_.push_back(peer);
  }

  std::string last_operation(int r) const {
    const auto its = r >= 0 && r < size() ? recorder(r) : nullptr;
    return its ? detail::last_operation(*its) : std::string{};
  }

  [[noreturn]] void give_up(errc code, const situation& s, std::chrono::nanoseconds waited, const std::string& text) {
    throw error{fail(failure_in(s, code, rank_, waited, text))};
  }

  static std::string seconds(std::chrono::nanoseconds t) {
    auto s = std::to_string(std::chrono::duration<double>(t).count());
    return s.substr(0, s.find('.') + 4) + " s";
  }

  void leave() noexcept {
    if (!base_) return;
    if (board(rank_).id.pid != ::getpid()) return base_.reset();  // a process that the rank forked is not the rank
    if (std::uncaught_exceptions() > exceptions_ && !failed()) {
      failure f;
      f.code = errc::peer_failed;
      f.rank = f.peer = rank_;
      f.text = "an exception destroyed its communicator";
      fail(f);
    }
    board(rank_).present.store(detail::presence::left, std::memory_order_seq_cst);
    detail::bell::before_ringing();
    for (int r = 0; r < size(); ++r) board(r).alarm.ring();
    if (head().left.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(size())) memory_.discard(region_, shape_.bytes());
    base_.reset();
  }

  Memory memory_;
  std::uint64_t region_;
  detail::region_shape shape_;
  int rank_;
  std::shared_ptr<std::byte> base_;
  detail::resource_pointer heap_;
  std::vector<progress> sent_;
  std::vector<std::uint64_t> received_, swaps_;
  std::vector<int> to_ring_;
  bool crowded_ = false;
  int exceptions_ = 0;
  bool went_on_ = false;
};

}  // namespace kolo::inline v0

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The slot protocol of threads and processes: for every ordered pair of ranks a ring of slots in memory that both address.
#pragma once

#include <kolo/transport/heap.hpp>
#include <kolo/transport/mapping.hpp>
#include <kolo/transport/region.hpp>
#include <kolo/transport/region_member.hpp>
#include <kolo/transport/small_exchange.hpp>
#include <kolo/transport/survivors.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline v0 {
namespace detail {

/// A piece whose memory was taken back from a peer that had stopped in the middle of it.
struct revoked_piece {
  std::shared_ptr<std::byte> region;  ///< where `at` lies
  slot* at;
  const std::atomic<std::uint64_t>* released;
  std::uint64_t number;
  const rank_board* holder;

  /// False: the peer has gone on and let go, or it has ended.
  bool is_held() const {
    if (at->claimed.load(std::memory_order_acquire) != claim::revoked || released->load(std::memory_order_acquire) > number) return false;
    const auto present = holder->present.load(std::memory_order_acquire);
    return present == presence::here ? is_alive(holder->id) : present == presence::expected;
  }
};

}  // namespace detail

/// Over a Mapping (`private_mapping` among threads, `shared_mapping` among processes); models Pairing.
///
/// A piece: the sender writes payload, length and tag into a slot and then publishes the slot's sequence number; the receiver
/// finds the number that it expects, reduces out of the slot, and then publishes how many slots it has released. Numbers only
/// grow, every line has one writer, and a slot's first 32 payload bytes share the line of its number.
/// Source: the credit scheme of any ring buffer; order of stores as in Lamport, "Specifying concurrent program modules", 1983.
template <Mapping Memory>
class mailbox : public detail::region_member {
 public:
  struct options {
    std::chrono::nanoseconds timeout{};  ///< of this call; 0: the communicator's
  };

  /// Rank `rank` of the communicator in `region` of `memory`, which `initialise` has prepared. Errors  mismatch: there is no such region there;
  /// out_of_resources.
  mailbox(Memory memory, std::uint64_t region, const detail::region_shape& shape, int rank)
      : region_member{memory.map(region, shape.bytes()), shape, rank, !requires { Memory::is_unrecorded; }},
        memory_{std::move(memory)}, region_{region}, sent_(static_cast<std::size_t>(shape.ranks)), received_(sent_.size()), swaps_(sent_.size()) {}
  mailbox(mailbox&&) noexcept = default;
  ~mailbox() {
    if (leave()) memory_.discard(region_, shape_.bytes());
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
    if (!peek(peer).data) return;
    auto& claimed = slot(peer, rank_, received_[static_cast<std::size_t>(peer)]).claimed;
    if (claimed.compare_exchange_strong(taken, detail::claim::offered) || taken != detail::claim::revoked) return;
    claimed.store(detail::claim::withdrawn, std::memory_order_release);
  }

  bool keeps(int peer) {
    if constexpr (!detail::Secluding<Memory>) return true;
    auto& s = slot(peer, rank_, received_[static_cast<std::size_t>(peer)]);
    auto taken = detail::claim::taken;  // an exchange comes after all that was read before
    return (!s.is_elsewhere && !s.goes_elsewhere) || s.claimed.compare_exchange_strong(taken, detail::claim::taken);
  }

  bool withdraw(int peer) {
    bool all = true;
    for (auto number = released(peer); number < sent_[static_cast<std::size_t>(peer)].number; ++number) {
      auto offered = detail::claim::offered;
      all &= slot(rank_, peer, number).claimed.compare_exchange_strong(offered, detail::claim::withdrawn) ||
             offered != detail::claim::taken || is_gone(peer, peer);
    }
    return all;
  }

  bool revoke(int peer) {
    if constexpr (detail::Secluding<Memory>)  // else the peer is a thread of this process
      for (auto number = released(peer); number < sent_[static_cast<std::size_t>(peer)].number; ++number) {
        auto taken = detail::claim::taken;
        slot(rank_, peer, number).claimed.compare_exchange_strong(taken, detail::claim::revoked);
      }
    return detail::Secluding<Memory>;
  }

  std::size_t buffers_in_use() {
    std::size_t n = 0;
    for (int peer = 0; failed() && peer < size(); ++peer)
      for_each_revoked(peer, [&](const detail::revoked_piece& p) { n += is_in_use(p) ? 1 : 0; });
    std::erase_if(lent_before_, [this](const detail::revoked_piece& p) { return !is_in_use(p); });
    return n + lent_before_.size();
  }

  void begin_lending() {
    if constexpr (detail::Secluding<Memory>) memory_.begin_lending();
  }
  void end_lending() {
    if constexpr (detail::Secluding<Memory>) memory_.end_lending();
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

  /// See communicator::split. Cost  three small exchanges through rank 0, and a region.
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
    next.lent_before_ = std::exchange(lent_before_, {});
    for (int peer = 0; peer < size(); ++peer)
      for_each_revoked(peer, [&](const detail::revoked_piece& p) { next.lent_before_.push_back(p); });
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

 private:
  struct progress {
    std::uint64_t number = 0, released = 0;
  };

  detail::edge_credit& credit(int from, int to) const { return detail::credit_of(base_.get(), shape_, from, to); }
  detail::slot& slot(int from, int to, std::uint64_t number) const { return detail::slot_of(base_.get(), shape_, from, to, number); }
  detail::slot& swap_slot(int from, int to) const {
    return detail::swap_of(base_.get(), shape_, from, to, swaps_[static_cast<std::size_t>(from == rank_ ? to : from)]);
  }

  /// Pieces that a peer has taken, and that were taken back.
  template <class F>
  void for_each_revoked(int peer, F f) {
    for (auto number = released(peer); number < sent_[static_cast<std::size_t>(peer)].number; ++number)
      if (auto& s = slot(rank_, peer, number); s.claimed.load(std::memory_order_acquire) == detail::claim::revoked)
        f(detail::revoked_piece{base_, &s, &credit(rank_, peer).released, number, &board(peer)});
  }
  /// Can the peer still write to memory of this rank? Not where it has let go, or has ended; and not where the memory could be secluded.
  bool is_in_use(const detail::revoked_piece& p) {
    if constexpr (detail::Secluding<Memory>) {
      if (!p.is_held()) return false;
      if (p.at->goes_elsewhere && !memory_.seclude(detail::elsewhere_of(*p.at, shape_).back, p.at->bytes)) return true;
      auto revoked = detail::claim::revoked;
      p.at->claimed.compare_exchange_strong(revoked, detail::claim::withdrawn);
    }
    return false;
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

  Memory memory_;
  std::uint64_t region_;
  detail::resource_pointer heap_;
  std::vector<progress> sent_;
  std::vector<std::uint64_t> received_, swaps_;
  std::vector<detail::revoked_piece> lent_before_{};  ///< by the communicator that this one is left of
  bool went_on_ = false;
};

}  // namespace kolo::inline v0

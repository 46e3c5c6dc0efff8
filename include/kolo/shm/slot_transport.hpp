// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport of threads and processes: slots, pieces by reference, and groups.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/core/text.hpp>
#include <kolo/core/ticks.hpp>
#include <kolo/shm/group.hpp>
#include <kolo/shm/lending.hpp>
#include <kolo/shm/mapping.hpp>
#include <kolo/shm/new_region.hpp>
#include <kolo/shm/parts.hpp>
#include <kolo/shm/region.hpp>
#include <kolo/shm/shared_heap.hpp>
#include <kolo/shm/shrink.hpp>
#include <kolo/shm/slot_member.hpp>
#include <kolo/transport/small_exchange.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::shm {

/// Over a Mapping (`private_mapping` among threads, `shared_mapping` among processes); models SharedMemoryTransport.
template <class Memory>
class slot_transport : public slot_member {
  static_assert(Mapping<Memory>);

 public:
  using abilities = kolo::abilities<ability::shrink, ability::grow, ability::flush, ability::checks, ability::recorder,
                                    ability::exits, ability::identity, ability::lending, ability::heap, ability::board>;
  using options = call_options;

  /// Rank `rank` of the communicator in `region` of `memory`, which `initialise` has prepared. Errors  mismatch: there
  /// is no such region there; out_of_resources.
  [[gnu::cold, gnu::noinline]] slot_transport(Memory memory, std::uint64_t region, const region_shape& shape, int rank)
      : slot_member{memory.map(region, shape.bytes()), shape, rank, is_recorded},
        memory_{std::move(memory)},
        region_{region},
        lent_by_(std::size_t(shape.ranks)) {
    come();
  }
  slot_transport(slot_transport&&) noexcept = default;
  ~slot_transport() {
    if (leave()) memory_.discard(region_, shape_.bytes());
  }

  // Pieces by reference.

  remote_ref make_remote_ref(const std::byte* data, std::size_t bytes) { return memory_.make_remote_ref(data, bytes); }

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

  bool still_claims(int peer) {
    if constexpr (!Secluding<Memory>) return true;
    auto& s = received_[std::size_t(peer)].lines.now();
    auto taken = claim_state::claimed;  // an exchange is ordered after all reads before it
    return (!s.has_source && !s.has_reply) || s.claimed.compare_exchange_strong(taken, claim_state::claimed);
  }

  [[gnu::cold, gnu::noinline]] bool revoke(int peer) {
    if constexpr (Secluding<Memory>)  // else the peer is a thread of this process
      for (auto number = released(peer); number < sent_[std::size_t(peer)].number; ++number) {
        auto taken = claim_state::claimed;
        line(rank_, peer, number).claimed.compare_exchange_strong(taken, claim_state::revoked);
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

  void begin_lending() {
    if constexpr (Secluding<Memory>) memory_.begin_lending();
  }
  void end_lending() {
    if constexpr (Secluding<Memory>) memory_.end_lending();
  }

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

  /// Pieces that a peer has claimed, and that were revoked.
  [[gnu::cold, gnu::noinline]] void for_each_revoked(int peer, auto f) {
    if (peer == rank_) return;  // no slots
    for (auto number = released(peer); number < sent_[std::size_t(peer)].number; ++number)
      if (auto& s = line(rank_, peer, number); s.claimed.load(std::memory_order_acquire) == claim_state::revoked)
        f(revoked_piece{base_, &s, &indirect_of(buffer(rank_, peer, s.buffer), shape_), &credit(rank_, peer).released,
                        number, &state_of_rank(peer)});
  }
  Memory memory_;
  std::uint64_t region_;
  resource_pointer heap_;
  core::dynarray<lent_regions> lent_by_;      ///< the regions that each peer has referred to last
  std::vector<revoked_piece> lent_before_{};  ///< by the communicator that this one was shrunk from
};

}  // namespace kolo::inline KOLO_ABI::detail::shm

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pieces by reference: the regions that a peer has referred to, and the pieces revoked from a peer that had stopped.
#pragma once

#include <kolo/shm/mapping.hpp>
#include <kolo/shm/region.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace kolo::inline KOLO_ABI::detail::shm {

/// A region that a peer has referred to, as it is mapped in this process.
struct lent_region {
  std::uint64_t region = 0, length = 0;
  std::shared_ptr<std::byte> memory{};

  /// The address of `r` in this process. Consecutive pieces mostly lie in the same region, so it stays mapped.
  template <Mapping Memory>
  std::byte* resolve(Memory& in, const remote_ref& r, std::size_t bytes) {
    if constexpr (!MapsWhenReferred<Memory>) {
      return in.resolve(r, bytes);
    } else {
      Memory::expect_inside(r, bytes);
      if (region != r.region || length != r.length) *this = {r.region, r.length, in.window_of(r)};
      return memory.get() + r.offset;
    }
  }
};
struct lent_regions {
  lent_region from{}, back{};
};

/// A piece that was revoked because the peer had stopped in the middle of it.
struct revoked_piece {
  std::shared_ptr<std::byte> region;  ///< where `at` lies
  slot* at;
  const indirect* where;  ///< laid out by the shape of that region
  const std::atomic<std::uint64_t>* released;
  std::uint64_t number;
  const rank_state* holder;

  /// False: the peer has resumed and released the piece, or it has ended.
  bool is_held() const {
    return at->claimed.load(std::memory_order_acquire) == claim_state::revoked &&
           released->load(std::memory_order_acquire) <= number && !holder->is_gone();
  }

  /// Whether the peer can still write to memory of this rank: not after it has released the piece or ended, and not if
  /// the memory could be secluded.
  template <Mapping Memory>
  bool is_in_use(const Memory& memory) const {
    if constexpr (Secluding<Memory>) {
      if (!is_held()) return false;
      if (at->has_reply && !memory.seclude(where->back, at->bytes)) return true;
      auto revoked = claim_state::revoked;
      at->claimed.compare_exchange_strong(revoked, claim_state::cancelled);
    }
    return false;
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::shm

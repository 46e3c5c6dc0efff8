// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The boards of a region: a rank writes data that is the same for all others once, and all of them read it there.
#pragma once

#include <kolo/shm/region.hpp>
#include <kolo/shm/shm_member.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::shm {

/// A rank that has a board; models HasBoard. Calls on boards are numbered, and all ranks take part in each. A rank
/// reuses a line or buffer of its board once all ranks have read it.
class board_member : public shm_member {
 public:
  std::size_t board_bytes() const { return shape_.board_bytes(); }

  std::byte* reserve_board(std::size_t bytes, int& behind) {
    const auto ahead = bytes <= shape_.line_bytes ? shape_.board_lines : shape_.board_buffers;
    if (read_by_all_ + ahead <= ended_ && !find_readers(ahead, behind)) return nullptr;
    return payload(rank_, bytes);
  }

  void post_on_board(std::size_t bytes, std::uint64_t tag) {
    auto& s = board_line(base_.get(), shape_, rank_, line_.now());
    s.tag = tag;
    s.bytes = bytes;
    s.number.store(ended_ + 1, std::memory_order_release);
    notify_others();
  }

  received_slot peek_board(int peer) {
    auto& s = board_line(base_.get(), shape_, peer, line_.now());
    if (s.number.load(std::memory_order_acquire) != ended_ + 1) return {};
    __builtin_prefetch(&board_line(base_.get(), shape_, peer, line_.later()));
    return {payload(peer, s.bytes), s.bytes, s.tag};
  }

  void end_board(bool all_posted) {
    line_.advance();
    if (all_posted) return void(read_by_all_ = ended_++);  // a rank that posts has ended all calls before it
    boards_read_by(base_.get(), shape_, rank_).store(++ended_, std::memory_order_release);
    notify_of_read_board();
  }

 protected:
  using shm_member::shm_member;

 private:
  /// Of this call, in the line if it fits.
  std::byte* payload(int rank, std::size_t bytes) const {
    return bytes <= shape_.line_bytes ? board_line(base_.get(), shape_, rank, line_.now()).payload()
                                      : board_buffer(base_.get(), shape_, rank, ended_);
  }
  /// Whether all ranks have read all calls but the last `ahead`, so that this rank may reuse the line or buffer of an
  /// older one. If not, `behind` is set to a rank that has not.
  [[gnu::noinline]] bool find_readers(std::uint64_t ahead, int& behind) {
    auto least = ended_;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      const auto read =
          std::max(read_by_all_, boards_read_by(base_.get(), shape_, peer).load(std::memory_order_acquire));
      if (read + ahead <= ended_) {
        behind = peer;
        if (!std::exchange(awaits_, true)) awaits_readers(true);
        return false;
      }
      least = std::min(least, read);
    }
    if (std::exchange(awaits_, false)) awaits_readers(false);
    read_by_all_ = least;
    return true;
  }

  std::uint64_t ended_ = 0, read_by_all_ = 0;  ///< calls
  turn line_{shape_.board_lines};              ///< of call `ended_`
  bool awaits_ = false;                        ///< whether it is counted among `awaited_readers`
};

}  // namespace kolo::inline KOLO_ABI::detail::shm

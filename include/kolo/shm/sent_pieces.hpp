// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a rank has sent to one peer, and where its next piece to it lies: in a line, in a slot, or in the ring.
#pragma once

#include <kolo/core/copy.hpp>
#include <kolo/shm/region.hpp>

#include <cstddef>
#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::shm {

/// The lines from one rank to another, of which each piece takes the next.
class lines_in_turn {
 public:
  lines_in_turn() = default;
  lines_in_turn(slot* first, std::uint32_t lines) : first_{first}, turn_{lines} {}
  slot& now() const { return first_[turn_.now()]; }
  slot& later() const { return first_[turn_.later()]; }
  void advance() { turn_.advance(); }

 private:
  slot* first_ = nullptr;
  turn turn_{};
};

struct sent_pieces {
  /// Bytes. Fetching more takes longer than it saves.
  static constexpr std::size_t most_fetched = 16 * 1024;

  lines_in_turn lines{};
  std::uint64_t number = 0, released = 0;
  std::uint64_t first = 0;                ///< the piece since which slots are taken one after another
  std::uint64_t awaited = 0;              ///< the last piece whose slot `returned` may be asked for; 0: none
  std::uint8_t buffer = 0;                ///< the one reserved last, counted from 1, as in `buffer_of`; 0: a line
  std::size_t last = 0;                   ///< bytes of the last piece in a slot or in the ring
  std::size_t fetched = std::size_t(-1);  ///< bytes of the next slot that this rank has fetched; at first all
  std::uint8_t ring = 0;                  ///< its next free step
  bool has_turned = false;                ///< the ring's pages have been written: its times mean something
  core::one_way_copy copies{}, replies{};

  std::uint8_t next_buffer(const region_shape& s) const { return std::uint8_t(1 + (number - first) % s.slots); }

  /// For a piece that goes one way, of that many bytes, more than a line holds: a slot whose lines are here again, or
  /// what `copies` chooses.
  std::uint8_t next_place(const region_shape& s, std::size_t bytes) {
    if (bytes <= fetched) return copies.choose(0), next_buffer(s);
    const bool has_ring = s.ring_step != 0;
    const bool is_new = has_ring && !has_turned && bytes >= core::one_way_copy::least_timed;
    if (copies.choose(is_new ? 0 : bytes, has_ring) != core::stored_by::ring && !is_new) return next_buffer(s);
    const auto place = ring_place(s, bytes);
    has_turned |= place < 1 + s.slots + ring;
    return place;
  }
  /// The piece lies there now.
  void take_place(const region_shape& s, std::size_t bytes) {
    if (buffer != 0) last = bytes;
    if (buffer > s.slots) ring = std::uint8_t(buffer - s.slots - 1 + ring_steps_of(s, bytes));
  }

 private:
  std::uint8_t ring_place(const region_shape& s, std::size_t bytes) const {
    const bool is_behind_end = ring + ring_steps_of(s, bytes) > ring_steps;
    return std::uint8_t(1 + s.slots + (is_behind_end ? 0 : ring));
  }
  static std::uint32_t ring_steps_of(const region_shape& s, std::size_t bytes) {
    return std::uint32_t((bytes + s.ring_step - 1) / s.ring_step);
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::shm

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The law of the buffers for round trips: pieces for which a reply comes back.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/launch/threads.hpp>

#include <algorithm>
#include <deque>
#include <string>

#include "laws/shared_memory_laws.hpp"

namespace laws {

/// If ranks take turns, and the cache of a core holds one piece per peer, consecutive round trips of a pair use one buffer; but no piece is put where an unread
/// piece or an unread reply is. Both ranks are driven by hand, in any order.
inline std::string round_trips_share_a_buffer() {
  kolo::detail::shm::region_shape shape{2, {}};
  shape.cores = 1, shape.cache_bytes = 2 * shape.round_trip_bytes();
  if (shape.round_trip_slots() != 1) return "one round trip is in flight at a time";
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::transport a{memory, region, shape, 0}, b{memory, region, shape, 1};
  constexpr std::size_t bytes = 1000;
  struct piece {
    std::byte* place;
    std::uint64_t number;
    bool comes_back, is_released = false;
  };
  std::deque<piece> in_flight;  // that are not read, or whose replies are not
  std::byte* last = nullptr;
  std::uint64_t random = 1, alone = 0;
  for (int step = 0; step < 20'000; ++step) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const auto what = random >> 33;
    const auto oldest = std::find_if(in_flight.begin(), in_flight.end(), [](auto& p) { return !p.is_released; });
    if (what % 2 == 0 && (in_flight.empty() || a.slots() > in_flight.size())) {
      const bool comes_back = what / 2 % 4 != 0;
      auto* const to = comes_back ? a.reserve(1) : a.reserve(1, bytes);
      if (!to) continue;
      for (const piece& p : in_flight)
        if (p.place == to && (p.comes_back || !p.is_released)) return "an unread piece or reply is not overwritten";
      alone = in_flight.empty() && comes_back ? alone + 1 : 0;
      if (alone > 2 && to != last) return "consecutive round trips use one buffer";
      write(last = to, bytes, static_cast<std::uint64_t>(step));
      in_flight.push_back({to, a.commit(1, bytes, static_cast<std::uint64_t>(step)), comes_back});
    } else if (what / 2 % 2 == 0 && oldest != in_flight.end()) {
      const auto read = b.peek(0);
      if (!holds(read, bytes, read.tag)) return "a piece arrives as it was sent";
      if (oldest->comes_back) write(read.back, bytes, oldest->number);
      b.release(0), oldest->is_released = true;
    } else if (!in_flight.empty() && in_flight.front().is_released) {
      const auto& p = in_flight.front();
      const auto* const answer = a.returned(1, p.number);
      if (!answer || (p.comes_back && !all_are(answer, bytes, p.number))) return "the reply is what the peer wrote";
      in_flight.pop_front();
    }
  }
  return "";
}

/// Pieces that go one way lie in the ring, one behind the other, and begin at its start again: none is put where an unread one is, and each arrives as it was
/// sent. Longer and shorter ones, and round trips, go in between. Both ranks are driven by hand, in any order.
inline std::string rings_keep_unread_pieces() {
  using kolo::detail::core::stored_by;
  constexpr std::size_t longest = 8192;
  kolo::detail::shm::region_shape shape{2, {.slot_bytes = longest}};
  shape.ring_step = 256;
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::transport a{memory, region, shape, 0}, b{memory, region, shape, 1};
  struct piece {
    std::byte* place;
    std::size_t bytes;
  };
  std::deque<piece> unread;
  auto* const base = memory.map(region, shape.bytes()).get();
  auto* const ring = base + kolo::detail::shm::region_layout{shape}.rings_at;
  std::uint64_t random = 1, begins = 0, turns = 0;
  for (int step = 0; step < 4'000; ++step) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const auto what = random >> 33;
    if (what % 2 == 0) {
      for (const auto way : {stored_by::slot, stored_by::past_cache}) a.one_way(1).took(way, 9);
      a.one_way(1).took(stored_by::ring, 1);  // so most pieces take it
      const auto bytes = what / 2 % 8 == 0 ? 100 + what / 16 % 1000 : 4096 + what / 16 % (longest - 4095);
      auto* const to = what / 2 % 8 == 1 ? a.reserve(1) : a.reserve(1, bytes);
      if (!to) continue;
      for (const piece& p : unread)
        if (p.place < to + bytes && to < p.place + p.bytes) return "an unread piece is not overwritten";
      if (to >= ring) ++begins, turns += to == ring ? 1 : 0;
      if (to >= ring && to + bytes > ring + shape.ring_bytes()) return "a piece lies within the ring";
      write(to, bytes, static_cast<std::uint64_t>(step));
      a.commit(1, bytes, static_cast<std::uint64_t>(step));
      unread.push_back({to, bytes});
    } else if (!unread.empty()) {
      const auto read = b.peek(0);
      if (!holds(read, unread.front().bytes, read.tag)) return "a piece arrives as it was sent";
      b.release(0);
      unread.pop_front();
    }
  }
  return kolo::detail::core::one_way_copy::is_timed && (turns < 50 || begins < 1'000) ? "most pieces lie in the ring"
                                                                                      : "";
}

/// A piece lies in the next slot if that many bytes of it have been fetched; else most pieces lie in the ring.
inline std::string pieces_lie_in_fetched_slots() {
  using kolo::detail::core::stored_by;
  kolo::detail::shm::region_shape shape{2, {.slot_bytes = 8192}};
  shape.ring_step = 256;
  kolo::detail::shm::sent_pieces sent;
  int in_ring = 0;
  for (int i = 0; i < 4'000; ++i) {
    const std::size_t bytes = i % 3 == 0 ? 5000 : 8192;
    const bool is_fetched = bytes <= sent.fetched;
    if (is_fetched != (i == 0 || (i % 6 == 5 || i % 6 == 0))) return "only what was fetched is there";
    sent.buffer = sent.next_place(shape, bytes);
    if (is_fetched && sent.buffer != sent.next_buffer(shape)) return "a piece lies in the slot that was fetched";
    if (!is_fetched && sent.buffer > shape.slots) ++in_ring;
    sent.take_place(shape, bytes);
    ++sent.number;
    sent.fetched = 0;
    if (i % 6 == 4) sent.fetched = 8192;
    if (i % 6 == 5 || i % 6 == 0) sent.fetched = 5000;
    for (const auto way : {stored_by::slot, stored_by::past_cache}) sent.copies.took(way, 9);
    sent.copies.took(stored_by::ring, 1);
  }
  return kolo::detail::core::one_way_copy::is_timed && in_ring < 2'000 ? "most other pieces lie in the ring" : "";
}

}  // namespace laws

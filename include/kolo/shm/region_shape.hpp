// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shape of the memory that the ranks of one communicator share, and where its parts lie.
#pragma once

#include <kolo/core/copy.hpp>
#include <kolo/core/rank.hpp>
#include <kolo/os/cores.hpp>
#include <kolo/shm/group.hpp>
#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <cstddef>

namespace kolo::inline KOLO_ABI::detail::shm {

inline constexpr std::size_t region_page = 4096;
/// The most spare buffers that each rank of a pair owns at first.
inline constexpr std::size_t most_spares = 2;

// Beyond these, offsets in a region would exceed 64 bits.
inline constexpr int most_ranks = 16 * 1024;
inline constexpr std::size_t most_slot_bytes = std::size_t{1} << 32;

constexpr int checked_ranks(long long ranks) {
  if (ranks > most_ranks)
    core::throw_error(errc::invalid_argument, {ranks, " ranks cannot share memory, and ", most_ranks, " can"});
  return int(ranks);
}
constexpr std::size_t checked_slot_bytes(std::size_t bytes) {
  if (bytes > most_slot_bytes)
    core::throw_error(errc::invalid_argument, {"slot_bytes is ", bytes, ", and may be ", most_slot_bytes, " at most"});
  return bytes;
}

/// Of a ring. A piece's line counts the slots, and then these, in eight bits.
inline constexpr std::uint32_t ring_steps = 240;

/// The reader of a short piece prefetches the line of the piece that comes this many later. If its writer is ahead, the
/// line arrives in time: among 4 ranks on 2 far cores a small reduce takes three quarters of the time. If not, the line
/// is in the cache already, as it was read last, and stays there until its writer takes it.
inline constexpr std::uint32_t far_ahead = 8;

/// All that is needed to find anything in a region; equal on all ranks.
struct region_shape {
  int ranks = 1;
  int ranks_per_node = 0;                  ///< 0: all ranks share one node
  std::uint32_t slots = 4;                 ///< per ordered pair: pieces of any length in flight
  std::uint32_t lines = 32;                ///< the same of short pieces, which lie in their lines; >= slots
  std::uint32_t spares = most_spares;      ///< that each rank of a pair owns at first; with 1, the rank ahead waits
  std::uint32_t ring_step = 0;             ///< bytes: at its multiples pieces in a ring begin; 0: there are no rings
  std::uint32_t board_lines = 64;          ///< per rank: short posts by which it may be ahead of its readers
  std::uint32_t board_buffers = 4;         ///< the same of longer posts; at least two of either
  int buffers_from = core::few_ranks + 1;  ///< with fewer ranks, boards have lines only
  std::size_t slot_bytes = 64 * 1024;      ///< payload of a slot
  std::size_t cache_bytes = 0;             ///< of a core; sets the length of a slot; 0: the user has set it
  int cores = 1;                           ///< that ranks may share
  std::chrono::nanoseconds timeout{std::chrono::minutes{5}};
  bool checked = false;

  region_shape() = default;
  constexpr region_shape(int size, const group_options& o)
      : ranks{checked_ranks(size)},
        ranks_per_node{o.ranks_per_node},
        slot_bytes{checked_slot_bytes(o.slot_bytes)},
        cache_bytes{o.slot_bytes == 0 ? os::core_cache_bytes() : 0},
        cores{o.slot_bytes == 0 ? os::usable_cores() : 1},
        timeout{transport::checked_deadline(o.timeout)},
        checked{o.checked} {
    share_memory();
  }

  /// The longest payload of an exchange. A pair's halves swap after each exchange, so if long and short payloads
  /// alternate, the end of a long one is written to lines that the peer, not this rank, has read last. For a longer
  /// payload a spare buffer, which does not alternate, costs less.
  constexpr std::size_t exchange_bytes() const {
    constexpr std::size_t most = 2 * 1024;
    return slot_bytes < most ? slot_bytes : most;
  }
  /// The longest piece that gets a reply. All such pieces of the ranks of one core fit into its cache together: of 8
  /// ranks on 2 cores with caches of 1 MiB, allreduce from 1 MiB on took 0.6 to 0.8 of the time that it takes in whole
  /// slots. Not shorter than half a usual slot: by reference that took 1.1 to 1.4 times as long.
  constexpr std::size_t round_trip_bytes() const {
    constexpr std::size_t least = 32 * 1024;
    if (cache_bytes == 0 || ranks == 1) return slot_bytes;
    return std::min(slot_bytes, std::max(least, cache_bytes / pieces_of_core()));
  }
  /// How many of those one rank may have in flight to another. If ranks take turns on a core, and two pieces to each
  /// peer are more than its cache holds: one, which reuses the place of the one before. From 256 KiB on, allreduce of
  /// 8, 12 and 16 ranks on 2 cores took 0.55 to 0.85 of the time; among 3 ranks it would take 1.3 times as long.
  constexpr std::uint32_t round_trip_slots() const {
    return cache_bytes != 0 && ranks > cores && cache_bytes / 2 < pieces_of_core() * round_trip_bytes() ? 1 : slots;
  }
  /// The longest payload of a board, in its line or in a buffer.
  constexpr std::size_t board_bytes() const {
    return ranks < buffers_from ? std::min(slot_bytes, line_bytes) : slot_bytes;
  }
  static constexpr std::size_t line_bytes = transport::short_piece;
  /// Of a pair's ring, in which longer pieces lie that go one way.
  constexpr std::size_t ring_bytes() const { return std::size_t{ring_step} * ring_steps; }
  constexpr std::size_t pairs() const { return std::size_t(ranks) * std::size_t(ranks - 1); }
  /// Address space, not memory: pages appear when a pair of ranks first exchanges something.
  constexpr std::size_t bytes() const;

  /// The slot length that the user has set; 0: none.
  constexpr std::size_t given_slot_bytes() const { return cache_bytes == 0 ? slot_bytes : 0; }

  constexpr region_shape with_ranks(int other) const {
    region_shape s = *this;
    s.ranks = other;
    s.share_memory();
    return s;
  }
  constexpr region_shape subset(int members) const {
    region_shape s = with_ranks(members);
    s.ranks_per_node = 0;
    return s;
  }
  constexpr placement place(int rank) const {
    if (ranks_per_node <= 0) return {rank, ranks, 0, 1};
    const int node = rank / ranks_per_node, first = node * ranks_per_node;
    const int here = ranks - first < ranks_per_node ? ranks - first : ranks_per_node;
    return {rank - first, here, node, (ranks - 1) / ranks_per_node + 1};
  }

 private:
  /// The pieces that the ranks of one core have in flight, at one to each peer.
  constexpr std::size_t pieces_of_core() const { return std::size_t(((ranks - 1) / cores + 1) * (ranks - 1)); }

  /// A rank that runs ahead of a peer stops when all lines are full. Ranks that share a core then switch more often: 8
  /// ranks on 2 cores took 1.6 times as long for a small reduce with 32 lines as with 256. So there are up to 256 if
  /// the lines of all pairs fit in 2 MB, or in 200 kB for at most 4 ranks.
  ///
  /// If the user has not set the slot length: a piece of each peer fits into a core's cache, and the region takes at
  /// most 5 MB for 4 ranks, 70 MB for fewer than 64 ranks, 64 MB from 64 ranks on. A second spare buffer and the fourth
  /// and third slot are given up before pieces become shorter, lines after that: of 16 ranks on 2 cores alltoall and
  /// allgather of 1 MiB took 1.3 to 1.4 times as long in pieces of half the length.
  [[gnu::cold]] constexpr void share_memory() {
    constexpr std::size_t least = 4 * 1024, most = 64 * 1024, step = 1024;
    const std::size_t most_of_all = ranks < 64 ? 70'000'000 : 64'000'000;
    const bool all_are_short = cache_bytes == 0 && slot_bytes <= line_bytes;  // the user wants exactly these slots
    lines = ranks > 64 || all_are_short ? slots : 256;
    while (lines > 32 && pairs() * lines * 128 > (ranks <= 4 ? 200'000u : 2'000'000u)) lines /= 2;
    if (cache_bytes == 0) return;
    const auto peers = std::size_t(std::max(1, ranks - 1));
    slot_bytes = std::clamp(cache_bytes / peers / step * step, least, most);
    slots = 4, spares = most_spares, ring_step = 0;
    if (bytes() > most_of_all) slots = 3, spares = 1;
    if (bytes() > most_of_all) slots = 2;
    while (bytes() > most_of_all && slot_bytes > least) slot_bytes -= step;
    if (bytes() > most_of_all) lines = 3;
    share_rings();
  }

  /// A line that goes one way is cheap to write again once the cache of the core that has read it has dropped it. So
  /// pieces take turns in a ring of two caches, or of what fits in 5 MB with all else, if that is three quarters of a
  /// cache: between two ranks. On near cores a broadcast of 64 KiB then takes half the time of four slots.
  constexpr void share_rings() {
    constexpr std::size_t most_of_few = 5'000'000;
    if (pairs() == 0 || bytes() >= most_of_few || !core::one_way_copy::is_timed) return;
    ring_step = std::uint32_t(std::min(2 * cache_bytes, (most_of_few - bytes()) / pairs()) / ring_steps / 128 * 128);
    // The pieces in flight, with the next one, and what is left free at the end.
    const auto least = std::max(cache_bytes / 4 * 3, (slots + 1) * (slot_bytes + ring_step));
    if (ring_bytes() < least) ring_step = 0;
  }
};

/// The offsets of the parts of a region of this shape, in this order, and the strides of those that repeat, in bytes.
struct region_layout : region_shape {
  static constexpr std::size_t states_at = 1024;
  std::size_t slot_stride, exchange_stride, board_stride;
  std::size_t failures_at, credits_at, recorders_at, exchanges_at, boards_at, board_lines_at, board_buffers_at,
      lines_at, slots_at, spares_at, rings_at, end;

  constexpr region_layout(const region_shape& s)
      : region_shape{s},
        slot_stride{lines_of(slot_bytes) + 128},
        exchange_stride{lines_of(exchange_bytes() + 32)},
        board_stride{board_bytes() <= line_bytes ? 0 : lines_of(board_bytes())},
        failures_at{states_at + each() * 128},
        credits_at{failures_at + each() * 384},
        recorders_at{credits_at + pairs() * 128},
        exchanges_at{pages_of(recorders_at + each() * sizeof(transport::flight_recorder))},
        boards_at{exchanges_at + pairs() * exchange_stride},
        board_lines_at{boards_at + each() * 128},
        board_buffers_at{board_lines_at + (ranks > 1 ? each() * board_lines * 128 : 0)},
        lines_at{board_buffers_at + each() * board_buffers * board_stride},
        slots_at{pages_of(lines_at + pairs() * lines * 128)},
        spares_at{slots_at + pairs() * slots * slot_stride},
        rings_at{spares_at + pairs() * spares * slot_stride},
        end{rings_at + pairs() * ring_bytes()} {}

 private:
  constexpr std::size_t each() const { return std::size_t(ranks); }
  static constexpr std::size_t lines_of(std::size_t bytes) { return core::rounded_up(bytes, 128); }
  static constexpr std::size_t pages_of(std::size_t bytes) { return core::rounded_up(bytes, region_page); }
};

constexpr std::size_t region_shape::bytes() const { return region_layout{*this}.end; }

}  // namespace kolo::inline KOLO_ABI::detail::shm

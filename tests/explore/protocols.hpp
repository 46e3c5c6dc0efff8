// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protocols of the slots, with as few pieces as show all that can happen: what arrives is what was sent, and no rank waits for ever.
#pragma once

#include "explore/ranks.hpp"

#include <array>
#include <atomic>
#include <chrono>

namespace explore {

/// Rank 0 sends numbered pieces to rank 1; or each sends to the other.
struct pieces : group {
  pieces(int n, std::uint32_t slots, bool both_ways, bool sleep) : group{2, slots}, count{n}, both{both_ways} {
    sleeps = sleep;
  }
  void rank(int r) override {
    auto& w = wire(r);
    for (int i = 0; i < count; ++i) {
      if (r == 0 || both) send(w, 1 - r, i);
      if (r == 1 || both) receive(w, 1 - r, i);
    }
    w.flush();
  }
  static void send(transport& w, int peer, int i) {
    *reinterpret_cast<int*>(await(w, peer, [&] { return w.reserve(peer); })) = 100 + i;
    w.commit(peer, sizeof(int), static_cast<std::uint64_t>(i));
  }
  static void receive(transport& w, int peer, int i) {
    const auto a = await(w, peer, [&] { return found{w.peek(peer)}; });
    require(a.piece.tag == static_cast<std::uint64_t>(i) && a.piece.bytes == sizeof(int), "another piece was expected");
    require(a.value() == 100 + i, "a piece is not what was sent");
    w.release(peer);
  }
  int count;
  bool both;
};

/// Pieces in the line of their number or, two of three, in a buffer, of which there are fewer.
struct short_and_long : group {
  short_and_long(int n, std::uint32_t lines, std::uint32_t buffers) : group{2, buffers, 128}, count{n} {
    shape.lines = lines;
  }
  void rank(int r) override {
    auto& w = wire(r);
    for (int i = 0; i < count; ++i) {
      const std::size_t bytes = i % 3 > 0 ? shape.line_bytes + 1 : sizeof(int);
      if (r == 0) {
        *reinterpret_cast<int*>(await(w, 1, [&] { return w.reserve(1, bytes); })) = 100 + i;
        w.commit(1, bytes, static_cast<std::uint64_t>(i));
      } else {
        const auto a = await(w, 0, [&] { return found{w.peek(0)}; });
        require(a.piece.bytes == bytes && a.value() == 100 + i, "a piece is not what was sent");
        w.release(0);
      }
    }
    w.flush();
  }
  int count;
};

/// Each rank exchanges with each other.
struct is_exchange : group {
  is_exchange(int n, int size, bool sleep) : group{size, 1}, count{n} { sleeps = sleep; }
  void rank(int r) override {
    auto& w = wire(r);
    for (int i = 0; i < count; ++i) {
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == r) continue;
        *reinterpret_cast<int*>(w.exchange_slot(peer)) = 100 * r + i;
        w.post_exchange(peer, sizeof(int), static_cast<std::uint64_t>(i));
      }
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == r) continue;
        const auto a = await(w, peer, [&] { return found{w.peek_exchange(peer)}; });
        require(a.piece.tag == static_cast<std::uint64_t>(i) && a.value() == 100 * peer + i,
                "an exchange is not what was sent");
        w.end_exchange(peer);
      }
    }
    w.flush();
  }
  int count;
};

/// Calls on boards in sequence: a digit is the rank that posts, and + means that all do.
struct boards : group {
  boards(const char* who_posts, std::uint32_t lines, int size, bool sleep) : group{size, 1}, calls{who_posts} {
    shape.board_lines = lines;
    sleeps = sleep;
  }
  void rank(int r) override {
    auto& w = wire(r);
    for (int i = 0; calls[i] != 0; ++i) {
      const bool all = calls[i] == '+';
      const auto posts = [&](int who) { return all || calls[i] - '0' == who; };
      if (posts(r)) {
        int behind = 0;
        *reinterpret_cast<int*>(await(w, 0, [&] { return w.reserve_board(bytes, behind); })) = 100 * r + i;
        w.post_on_board(bytes, static_cast<std::uint64_t>(i));
      }
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == r || !posts(peer)) continue;
        const auto a = await(w, peer, [&] { return found{w.peek_board(peer)}; });
        require(a.piece.tag == static_cast<std::uint64_t>(i) && a.value() == 100 * peer + i,
                "a board is not what was posted");
      }
      w.end_board(all);
    }
    w.flush();
  }
  const char* calls;
  std::size_t bytes = sizeof(int);
};

/// Pieces that do not fit into a line, in buffers, of which there are fewer.
struct long_boards : boards {
  long_boards(const char* who_posts, std::uint32_t lines, std::uint32_t buffers, int size, bool sleep)
      : boards{who_posts, lines, size, sleep} {
    shape.slot_bytes = 128, shape.board_buffers = buffers, shape.buffers_from = 2;
    bytes = kolo::detail::shm::region_shape::line_bytes + 1;
  }
};

/// Each rank sends the other pieces, in spare buffers as long as it owns one; or only rank 1 uses these, and gives its own away.
struct spares : group {
  spares(int n, bool both_ways) : group{2, 1}, count{n}, both{both_ways} {}
  void rank(int r) override {
    auto& w = wire(r);
    for (int i = 0; i < count; ++i) {
      auto* to = await(w, 1 - r, [&] { return w.reserve(1 - r); });
      auto* const spare = both || r == 1 ? w.spare_buffer(1 - r) : nullptr;
      require(spare || !both, "a rank that gets a buffer for each that it sends owns one");
      if (spare) to = spare;
      *reinterpret_cast<int*>(to) = 100 + i;
      w.commit(1 - r, sizeof(int), static_cast<std::uint64_t>(i), {{}, {}, spare != nullptr});
      pieces::receive(w, 1 - r, i);
    }
    w.flush();
  }
  int count;
  bool both;
};

/// Rank 0's pieces are in its own memory, and rank 1 replies into another part of it; or both are in the slot. Rank 0 then uses both again.
struct replies : group {
  replies(int n, std::uint32_t slots, bool by_reference) : group{2, slots}, count{n}, refers{by_reference} {}
  void rank(int r) override {
    auto& w = wire(r);
    for (int i = 0; i < count; ++i) r == 0 ? ask(w, i) : reply(w);
    w.flush();
  }
  void ask(transport& w, int i) {
    auto& mine = *new std::array<int, 2>{100 + i, 0};
    auto* const to = reinterpret_cast<int*>(await(w, 1, [&] { return w.reserve(1); }));
    kolo::indirect where;
    if (refers)
      where = {w.make_remote_ref(reinterpret_cast<std::byte*>(&mine[0]), 4),
               w.make_remote_ref(reinterpret_cast<std::byte*>(&mine[1]), 4)};
    else *to = mine[0];
    const auto number = w.commit(1, sizeof(int), 0, where);
    const auto* const back = await(w, 1, [&] { return w.returned(1, number); });
    require((refers ? mine[1] : *reinterpret_cast<const int*>(back)) == 200 + i, "a reply is wrong");
    mine = {};
  }
  static void reply(transport& w) {
    await(w, 0, [&] { return w.peek(0).data; });
    const auto a = w.claim(0);
    require(a.data != nullptr, "a piece that was not cancelled cannot be claimed");
    *reinterpret_cast<int*>(a.back) = *reinterpret_cast<const int*>(a.data) + 100;
    w.release(0);
  }
  int count;
  bool refers;
};

/// Rank 0 cancels a piece that refers to its memory and uses this again, while rank 1 claims the piece, and may unclaim it.
struct cancellation : group {
  explicit cancellation(bool with_unclaim) : group{2, 1}, unclaims{with_unclaim} {}
  void rank(int r) override {
    auto& w = wire(r);
    if (r == 0) {
      auto& mine = *new int{100};
      w.commit(1, sizeof(int), 0, {w.make_remote_ref(reinterpret_cast<std::byte*>(&mine), 4), {}});
      while (!w.cancel(1)) pause();
      mine = 0;
    } else if (w.peek(0).data) {
      if (const auto a = w.claim(0); a.data)
        require(*reinterpret_cast<const int*>(a.data) == 100, "a piece was read after it was cancelled");
      if (unclaims) w.unclaim(0);
      else w.release(0);
    }
  }
  bool unclaims;
};

/// One rank fails and the other sleeps, or both fail at once: both get the same failure.
struct failing : group {
  explicit failing(int of_those) : group{2, 1}, fail{of_those} { sleeps = true; }
  void begin() override { group::begin(), got = {}; }
  void rank(int r) override {
    auto& w = wire(r);
    try {
      if (r < fail) w.fail(kolo::failure_from({}, kolo::errc::peer_failed, r, {}, "here"));
      await(w, 1 - r, [&] { return w.peek(1 - r).data; });
    } catch (const kolo::error& e) {
      got[static_cast<std::size_t>(r)] = 1 + e.rank();
    }
  }
  void end() override { require(got[0] != 0 && got[0] == got[1], "ranks have got different failures"); }
  int fail;
  std::array<int, 2> got{};
};

/// Rank 1 leaves, with or without having sent what rank 0 waits for; the last one discards the region.
struct leaving : group {
  explicit leaving(bool sends) : group{2, 1}, piece{sends} { sleeps = time_passes = true; }
  void rank(int r) override {
    transport w{memory, region, shape, r};
    if (r == 1) return piece ? pieces::send(w, 0, 0) : void();
    try {
      pieces::receive(w, 1, 0);
      require(piece, "a piece arrived that was not sent");
    } catch (const kolo::error& e) {
      require(!piece && e.code() == kolo::errc::peer_left && e.peer() == 1, "another failure");
    }
  }
  bool piece;
};

/// Rank 1 dies, which its parent announces: here rank 1 itself. Rank 0 sleeps.
struct dying : group {
  dying() : group{2, 1} { sleeps = time_passes = true; }
  void rank(int r) override {
    if (r == 1) return transport::announce_death(memory, region, shape, 1);
    try {
      pieces::receive(wire(0), 1, 0);
    } catch (const kolo::error& e) {
      require(e.code() == kolo::errc::peer_died && e.peer() == 1, "another failure");
    }
  }
};

/// Rank 1 sleeps until rank 0 has published, twice; rank 0 leaves its fence to it from that number on.
struct waking : scenario {
  explicit waking(int n) : from{n} { fences_all = true; }
  struct shared {
    kolo::detail::os::eventcount event;
    kolo::detail::os::eventcount::shared_choice waiters_fence{0};
    std::atomic<int> published{0};
  };
  void begin() override { all = ::new (take(sizeof(shared))) shared; }
  void rank(int r) override {
    for (int i = 1; i <= 2; ++i) r == 0 ? publish(i) : await(i);
  }
  void publish(int i) {
    if (i == from) all->event.leave_fence_to_waiters(all->waiters_fence);
    all->published.store(i, std::memory_order_release);
    all->event.fence_before_notify(i >= from);
    all->event.notify();
  }
  void await(int i) {
    while (all->published.load(std::memory_order_acquire) < i) {
      const auto epoch = all->event.prepare_wait(all->waiters_fence);
      if (all->published.load(std::memory_order_acquire) < i) all->event.wait(epoch, std::chrono::hours{1});
    }
  }
  int from;
  shared* all = nullptr;
};

inline bool all_protocols() {  // those with the fewest states first: an error is found soon
  constexpr bool both_ways = true, sleep = true;
  return holds("a cancelled reference, against its use", cancellation{false}) &&
         holds("a cancelled reference, against unclaim", cancellation{true}) &&
         holds("waking: each rank has its fence", waking{3}) && holds("waking: the waiter fences", waking{1}) &&
         holds("waking: the waiter fences from the second on", waking{2}) &&
         holds("slots: 1 piece, asleep", pieces{1, 1, !both_ways, sleep}) &&
         holds("failure: 1, the other asleep", failing{1}) && holds("failure: 2 at once", failing{2}) &&
         holds("leaving after a piece", leaving{true}) && holds("leaving without it", leaving{false}) &&
         holds("death, which a parent announces", dying{}) && holds("exchanges: 1, asleep", is_exchange{1, 2, sleep}) &&
         holds("replies: 2 in the slot", replies{2, 1, false}) &&
         holds("replies: 2 by reference", replies{2, 1, true}) && holds("exchanges: 2", is_exchange{2, 2, !sleep}) &&
         holds("slots: 1 piece each way, asleep", pieces{1, 1, both_ways, sleep}) &&
         holds("slots: 3 pieces through 2", pieces{3, 2, !both_ways, !sleep}) &&
         holds("boards: all post, 3 times on 2", boards{"+++", 2, 2, !sleep}) &&
         holds("boards: one rank posts, 3 times on 2", boards{"000", 2, 2, !sleep}) &&
         holds("slots: 4 pieces, of 2 lines and 1 buffer", short_and_long{4, 2, 1}) &&
         holds("exchanges: 1 of 3 ranks", is_exchange{1, 3, !sleep}) &&
         holds("slots: 2 pieces each way through 1", pieces{2, 1, both_ways, !sleep}) &&
         holds("spare buffers: 2 pieces each way", spares{2, both_ways}) &&
         holds("spare buffers: 2 pieces each way, of one rank", spares{2, !both_ways}) &&
         holds("boards: ranks post in turn, 4 times on 2", boards{"1+00", 2, 2, !sleep}) &&
         holds("boards: in 2 buffers of 3 lines, 4 times", long_boards{"0+00", 3, 2, 2, !sleep}) &&
         holds("boards: one rank posts, twice on 1, asleep", boards{"00", 1, 2, sleep});
}

}  // namespace explore

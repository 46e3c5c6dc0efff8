// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws of kolo::SharedMemoryTransport, each a function that every rank calls with its transport; it returns the law that is broken, or nothing.
#pragma once

#include "laws/slot_laws.hpp"

namespace laws {

/// Both ranks of every pair exchange numbers many times, in pieces of all lengths.
inline constexpr auto exchanges_need_no_release = [](auto& t) -> std::string {
  const int p = t.size(), r = t.rank();
  for (std::uint64_t k = 1; k < 60; ++k) {
    const auto bytes = length_of(k, t.exchange_bytes());
    const auto number = [&](int rank) { return 1000 * static_cast<std::uint64_t>(rank) + k; };
    for (int d = 1; d < p; ++d) {
      const int peer = (r + d) % p;
      if (t.peek_exchange(peer).data && t.peek_exchange(peer).tag != number(peer))
        return "a previous exchange is not seen again";
      write(t.exchange_slot(peer), bytes, number(r));
      t.post_exchange(peer, bytes, number(r));
    }
    for (int d = 1; d < p; ++d) {
      const int peer = (r + d) % p;
      until(t, peer, [&] { return t.peek_exchange(peer).data != nullptr; });
      if (!holds(t.peek_exchange(peer), bytes, number(peer))) return "an exchange arrives as it was written";
      t.end_exchange(peer);
    }
  }
  for (int q = 0; q < p; ++q)
    if (q != r && t.peek(q).data) return "an exchange is no piece";
  return "";
};

/// In each call all ranks post, or one does, and the same one in several calls in a row.
inline constexpr auto boards_are_read_by_all = [](auto& t) -> std::string {
  const int p = t.size(), r = t.rank();
  if (p == 1) return "";
  const std::size_t most = t.board_bytes();
  for (std::uint64_t k = 1; k < 60; ++k) {
    const auto bytes = length_of(k, most);
    const bool all = k % 7 < 3;
    const auto number = [&](int rank) { return 1000 * static_cast<std::uint64_t>(rank) + k; };
    const auto posts = [&](int rank) { return all || static_cast<int>(k / 14) % p == rank; };
    if (posts(r)) {
      int behind = r;
      std::byte* to = nullptr;
      until(t, (r + 1) % p, [&] { return (to = t.reserve_board(bytes, behind)) != nullptr; });
      write(to, bytes, number(r));
      t.post_on_board(bytes, number(r));
    }
    for (int peer = 0; peer < p; ++peer) {
      if (peer == r || !posts(peer)) continue;
      until(t, peer, [&] { return t.peek_board(peer).data != nullptr; });
      if (!holds(t.peek_board(peer), bytes, number(peer))) return "a board arrives as it was posted";
    }
    t.end_board(all);
  }
  for (int q = 0; q < p; ++q)
    if (q != r && (t.peek(q).data || t.peek_exchange(q).data)) return "a board is no piece";
  return "";
};

inline bool all_are(const std::byte* data, std::size_t bytes, std::uint64_t number) {
  return std::all_of(data, data + bytes, [&](std::byte b) { return static_cast<std::uint64_t>(b) == number % 251; });
}

/// Every rank sends to the next, which replies with other bytes; more pieces than there are slots.
inline constexpr auto replies_come_back = [](auto& t) -> std::string {
  const int next = (t.rank() + 1) % t.size(), last = (t.rank() + t.size() - 1) % t.size();
  if (next == t.rank()) return "";
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t k = 0; k < 30; ++k) {
    const auto bytes = length_of(k, t.slot_bytes());
    std::byte* to = nullptr;
    until(t, next, [&] { return (to = t.reserve(next)) != nullptr; });
    write(to, bytes, k);
    const auto number = t.commit(next, bytes, k);
    if (!numbers.empty() && number != numbers.back() + 1) return "the numbers of pieces follow each other";
    numbers.push_back(number);
    until(t, last, [&] { return t.peek(last).data != nullptr; });
    if (!holds(t.peek(last), bytes, k)) return "pieces arrive as they were sent";
    write(t.claim(last).back, bytes, k + 100);
    t.release(last);
    until(t, next, [&] { return t.returned(next, number) != nullptr; });
    if (!all_are(t.returned(next, number), bytes, k + 100)) return "the reply is what the peer wrote";
    if (t.returned(next, number + 1)) return "a piece that was not sent has no reply";
  }
  t.flush();
  return "";
};

/// Both ranks of every pair send pieces, in spare buffers if they own one; in every third turn one of the two uses none, and comes to own all of them.
inline constexpr auto spare_buffers_pass_to_who_reads_them = [](auto& t) -> std::string {
  const int p = t.size(), r = t.rank();
  bool some = false;
  for (std::uint64_t k = 0; k < 60; ++k) {
    const auto bytes = length_of(k, t.slot_bytes());
    const auto number = [&](int rank, bool is_spare) {
      return 1000 * static_cast<std::uint64_t>(rank) + 2 * k + is_spare;
    };
    for (int d = 1; d < p; ++d) {
      const int peer = (r + d) % p;
      std::byte* to = nullptr;
      until(t, peer, [&] { return (to = t.reserve(peer)) != nullptr; });
      std::byte* const spare = k % 3 != 0 || (k % 2 == 0) == (r < peer) ? t.spare_buffer(peer) : nullptr;
      write(spare ? spare : to, bytes, number(r, spare != nullptr));
      t.commit(peer, bytes, number(r, spare != nullptr), {{}, {}, spare != nullptr});
      if (spare && t.spare_buffer(peer) == spare) return "a spare buffer that was sent belongs to the peer";
      some |= spare != nullptr;
    }
    for (int d = 1; d < p; ++d) {
      const int peer = (r + d) % p;
      until(t, peer, [&] { return t.peek(peer).data != nullptr; });
      const bool is_spare = t.peek(peer).tag == number(peer, true);
      const auto* const before = t.spare_buffer(peer);
      const auto piece = t.claim(peer);
      if (!holds(piece, bytes, number(peer, is_spare)) || t.peek(peer).data != piece.data)
        return "a piece in a spare buffer arrives as it was written";
      t.release(peer);
      if (t.spare_buffer(peer) != (is_spare ? piece.data : before))
        return "a spare buffer belongs to the rank that has read it";
    }
  }
  t.flush();
  return p == 1 || some ? "" : "no rank owns a spare buffer";
};

/// Alternately a piece in symmetric memory and one in its slot; the reply always goes to symmetric memory.
inline constexpr auto references_are_read_and_replied = [](auto& t) -> std::string {
  const int next = (t.rank() + 1) % t.size(), last = (t.rank() + t.size() - 1) % t.size();
  if (next == t.rank()) return "";
  const std::size_t bytes = t.slot_bytes();
  const auto parts = t.symmetric(2 * bytes);
  std::byte *const from = parts.part(t.rank()), *const back = from + bytes;
  for (std::uint64_t k = 0; k < 20; ++k) {
    const bool refers = k % 2 == 0;
    std::byte* slot = nullptr;
    until(t, next, [&] { return (slot = t.reserve(next)) != nullptr; });
    write(refers ? from : slot, bytes, k);
    if (t.make_remote_ref(from, bytes).length == 0) return "symmetric memory can be referred to";
    const auto number = t.commit(
        next, bytes, k, {refers ? t.make_remote_ref(from, bytes) : kolo::remote_ref{}, t.make_remote_ref(back, bytes)});
    until(t, last, [&] { return t.peek(last).data != nullptr; });
    const auto piece = t.claim(last);
    if (!holds(piece, bytes, k)) return "a piece is the memory that it refers to";
    write(piece.back, bytes, k + 100);
    t.release(last);
    until(t, next, [&] { return t.returned(next, number) != nullptr; });
    if (!all_are(back, bytes, k + 100)) return "the reply goes to the memory that was given for it";
    if (refers && !all_are(from, bytes, k)) return "memory that was referred to does not change";
  }
  t.flush();
  return "";
};

/// A piece that is cancelled before the peer claims it cannot be claimed; one that the peer has claimed can be cancelled after `unclaim`.
inline constexpr auto cancelled_pieces_are_not_read = [](auto& t) -> std::string {
  if (t.size() != 2) return "";
  const int peer = 1 - t.rank();
  const auto parts = t.symmetric(t.slot_bytes());
  const auto meet = [&] {
    t.exchange_slot(peer);
    t.post_exchange(peer, 0, 1);
    until(t, peer, [&] { return t.peek_exchange(peer).data != nullptr; });
    t.end_exchange(peer);
  };
  std::string wrong;
  if (t.rank() == 0) {
    until(t, peer, [&] { return t.reserve(peer) != nullptr; });
    t.commit(peer, t.slot_bytes(), 1, {t.make_remote_ref(parts.part(0), t.slot_bytes()), {}});
    meet();  // rank 1 has claimed it
    if (t.cancel(peer)) wrong = "a claimed piece cannot be cancelled";
    meet();
    meet();  // rank 1 has unclaimed it
    if (!t.cancel(peer) || !t.cancel(peer)) wrong = "an unclaimed piece can be cancelled";
    meet();
  } else {
    until(t, peer, [&] { return t.peek(peer).data != nullptr; });
    if (!t.claim(peer).data) wrong = "a committed piece can be claimed";
    meet();
    meet();
    t.unclaim(peer);
    meet();
    meet();
    if (t.claim(peer).data) wrong = "a cancelled piece cannot be claimed";
  }
  t.flush();
  return wrong;
};

}  // namespace laws

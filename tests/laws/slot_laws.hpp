// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws of kolo::SlotTransport, each a function that every rank calls with its transport; it returns the law that is broken, or nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "laws/transport_laws.hpp"

namespace laws {

/// Fills a piece with a number.
inline void write(std::byte* to, std::size_t bytes, std::uint64_t number) {
  std::memset(to, static_cast<int>(number % 251), bytes);
}
inline bool holds(const kolo::received_slot& a, std::size_t bytes, std::uint64_t number) {
  return a.data && a.tag == number && a.bytes == bytes && std::all_of(a.data, a.data + bytes, [&](std::byte b) {
           return static_cast<std::uint64_t>(b) == number % 251;
         });
}
/// Lengths from nothing to everything that fits.
inline std::size_t length_of(std::uint64_t number, std::size_t most) {
  return number % 5 == 0 ? most : number * 37 % (most + 1);
}

/// Sends a number to a peer, or receives one: how ranks of a law synchronise.
template <kolo::SlotTransport T>
void tell(T& t, int peer, std::uint64_t number) {
  std::byte* to = nullptr;
  const auto bytes = length_of(number, t.slot_bytes());
  const auto reserve = [&] {
    if constexpr (kolo::SharedMemoryTransport<T>)
      if (number % 2 == 0) return t.reserve(peer, bytes);
    return t.reserve(peer);
  };
  until(t, peer, [&] { return (to = reserve()) != nullptr; });
  write(to, bytes, number);
  t.commit(peer, bytes, number);
}
template <kolo::SlotTransport T>
bool hear(T& t, int peer, std::uint64_t number) {
  until(t, peer, [&] { return t.peek(peer).data != nullptr; });
  const bool right = holds(t.peek(peer), length_of(number, t.slot_bytes()), number);
  t.release(peer);
  return right;
}

inline constexpr auto pieces_arrive_in_order = [](auto& t) -> std::string {
  const int p = t.size(), r = t.rank();
  for (std::uint64_t k = 0; k < 40; ++k) {
    for (int d = 1; d < p; ++d) tell(t, (r + d) % p, 1000 * static_cast<std::uint64_t>(r) + k);
    for (int d = 1; d < p; ++d)
      if (!hear(t, (r + d) % p, 1000 * static_cast<std::uint64_t>((r + d) % p) + k))
        return "pieces arrive as they were sent, in order";
  }
  for (int q = 0; q < p; ++q)
    if (q != r && t.peek(q).data) return "nothing arrives that was not sent";
  return "";
};

inline constexpr auto reserve_is_idempotent_and_aligned = [](auto& t) -> std::string {
  for (int k = 0; k < 10; ++k) {
    const int next = (t.rank() + 1) % t.size(), last = (t.rank() + t.size() - 1) % t.size();
    if (next == t.rank()) return "";
    std::byte* to = nullptr;
    until(t, next, [&] { return (to = t.reserve(next)) != nullptr; });
    if (t.reserve(next) != to || t.reserve(next) != to) return "reserve returns the same address again";
    if (reinterpret_cast<std::uintptr_t>(to) % alignof(std::max_align_t) != 0)
      return "a slot is aligned for any element";
    write(to, length_of(7, t.slot_bytes()), 7);
    t.commit(next, length_of(7, t.slot_bytes()), 7);
    if (!hear(t, last, 7)) return "a piece arrives as it was written";
  }
  return "";
};

/// Rank 0 fills the slots to rank 1, then sends their number through rank 2: another pair is not affected, the pieces in the slots have not changed, and every
/// release returns a slot.
inline constexpr auto credits_come_back = [](auto& t) -> std::string {
  if (t.size() < 3 || t.rank() > 2) return "";
  const auto count = [&](int from) {
    until(t, from, [&] { return t.peek(from).data != nullptr; });
    return t.peek(from).tag;
  };
  if (t.rank() == 0) {
    std::uint64_t sent = 0;
    for (; sent < 1000 && t.reserve(1); ++sent) tell(t, 1, sent);
    if (sent == 0 || sent == 1000) return "the number of slots is positive and finite";
    tell(t, 2, sent);
    for (std::uint64_t k = 0; k < 3 * sent; ++k) tell(t, 1, sent + k);  // each waits for a release
    return hear(t, 1, sent) ? "" : "a piece arrives as it was sent";
  }
  if (t.rank() == 2) {
    const auto slots = count(0);
    if (!hear(t, 0, slots)) return "a full pair does not affect another";
    tell(t, 1, slots);
    return "";
  }
  const auto place = (count(0), t.peek(0).data);
  const auto slots = count(2);
  if (!hear(t, 2, slots)) return "a full pair does not affect another";
  if (t.peek(0).data != place || t.peek(0).data != place) return "the oldest piece stays until it is released";
  for (std::uint64_t k = 0; k < 4 * slots; ++k)
    if (!hear(t, 0, k)) return "a slot is used again only after its release";
  if (t.peek(0).data) return "nothing arrives that was not sent";
  tell(t, 0, slots);
  return "";
};

}  // namespace laws

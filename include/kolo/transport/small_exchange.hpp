// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a transport says to itself when it makes another: small, rare, and without a schedule.
#pragma once

#include <kolo/transport/transport.hpp>
#include <kolo/transport/under_way.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace kolo::inline v0::detail {

template <Slotted T>
[[noreturn]] void does_something_else(T& wire, const situation& s) {
  const auto text = "this rank calls split, rank " + std::to_string(s.peer) + " something else";
  throw error{wire.fail(failure_in(s, errc::mismatch, wire.rank(), {}, text))};
}

template <Slotted T>
  requires(!Messaging<T>)
void put(T& wire, int peer, const std::byte* data, std::size_t bytes, situation s) {
  s.peer = peer;
  for (std::size_t done = 0; done < bytes;) {
    std::byte* to = nullptr;
    for (patience p; !(to = wire.reserve(peer));) relax(wire, p, s);
    const auto n = std::min(bytes - done, wire.slot_bytes());
    std::memcpy(to, data + done, n);
    wire.commit(peer, n, split_tag);
    done += n;
  }
  wire.flush();
}

template <Slotted T>
  requires(!Messaging<T>)
void take(T& wire, int peer, std::byte* data, std::size_t bytes, situation s) {
  s.peer = peer;
  for (std::size_t done = 0; done < bytes;) {
    arrived a;
    for (patience p; !(a = wire.peek(peer)).data;) {
      if constexpr (Pairing<T>)
        if (wire.swapped(peer).data) {  // so what the peer committed before is there by now: it has split, and goes on
          if ((a = wire.peek(peer)).data) break;
          does_something_else(wire, s);
        }
      relax(wire, p, s);
    }
    if (a.tag != split_tag || a.bytes > bytes - done) does_something_else(wire, s);
    std::memcpy(data + done, a.data, a.bytes);
    done += a.bytes;
    wire.release(peer);
  }
  wire.flush();
}

template <Messaging T>
void await(T& wire, typename T::ticket t, const situation& s) {
  wire.submit();
  for (patience p; !wire.done(t);) relax(wire, p, s);
}
template <Messaging T>
void put(T& wire, int peer, const std::byte* data, std::size_t bytes, situation s) {
  s.peer = peer;
  await(wire, wire.send(peer, data, bytes, split_tag), s);
}
template <Messaging T>
void take(T& wire, int peer, std::byte* data, std::size_t bytes, situation s) {
  s.peer = peer;
  await(wire, wire.receive(peer, data, bytes, split_tag), s);
}

/// Everybody's item to everybody, through rank 0. `items`: one a rank, of which this rank's is filled in.
template <class T>
  requires Slotted<T> || Messaging<T>
void share(T& wire, void* items, std::size_t item_bytes) {
  const situation s{.operation = "split", .timeout = wire.timeout()};
  auto* bytes = static_cast<std::byte*>(items);
  const auto mine = static_cast<std::size_t>(wire.rank()) * item_bytes, all = static_cast<std::size_t>(wire.size()) * item_bytes;
  if (wire.rank() != 0) {
    put(wire, 0, bytes + mine, item_bytes, s);
    take(wire, 0, bytes, all, s);
    return;
  }
  for (int r = 1; r < wire.size(); ++r) take(wire, r, bytes + static_cast<std::size_t>(r) * item_bytes, item_bytes, s);
  for (int r = 1; r < wire.size(); ++r) put(wire, r, bytes, all, s);
}

/// Collective: the ranks that say this color, in the order of their keys, and of their ranks where keys are equal.
template <Slotted T>
std::vector<int> group_of(T& wire, int color, int key) {
  struct member { std::int32_t color, key; };
  std::vector<member> all(static_cast<std::size_t>(wire.size()));
  all[static_cast<std::size_t>(wire.rank())] = {color, key};
  share(wire, all.data(), sizeof(member));
  std::vector<int> group;
  for (int r = 0; r < wire.size(); ++r)
    if (all[static_cast<std::size_t>(r)].color == color) group.push_back(r);
  std::stable_sort(group.begin(), group.end(), [&](int a, int b) { return all[static_cast<std::size_t>(a)].key < all[static_cast<std::size_t>(b)].key; });
  return group;
}

template <Slotted T>
void everybody_is_here(T& wire) {
  std::vector<char> here(static_cast<std::size_t>(wire.size()), 1);
  share(wire, here.data(), 1);
}

}  // namespace kolo::inline v0::detail

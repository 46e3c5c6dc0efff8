// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far a rank's clock is from rank 0's, found out by asking; hosts do not agree about the time since they started.
#pragma once

#include <kolo/transport/small_exchange.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

namespace kolo::inline v0 {

/// What is no time: any other number may be one, since a clock may begin anywhere, and before zero.
inline constexpr std::int64_t no_time = std::numeric_limits<std::int64_t>::min();

/// This rank's time minus `ns` is rank 0's, within `error`: both in nanoseconds. It holds for the moment at which it was found out: clocks of two hosts
/// drift apart by some microseconds a second.
struct clock_offset {
  std::int64_t ns = 0, error = 0;
};

namespace detail {

/// a - b, also where it is more than half of all numbers: clocks of two hosts may differ by any amount, and what is made of it is small again.
constexpr std::int64_t time_between(std::int64_t a, std::int64_t b) { return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b)); }

template <class T>
concept HasOwnClock = requires(const T& wire) {
  { wire.now() } -> std::same_as<double>;
};

/// What a rank's events are dated by: the wire's own clock, where it has one in seconds (`now()`), and else the host's, CLOCK_MONOTONIC.
template <class T>
std::int64_t trace_time(const T& wire) {
  if constexpr (HasOwnClock<T>) return static_cast<std::int64_t>(wire.now() * 1e9);
  else return std::chrono::duration_cast<std::chrono::nanoseconds>(patience::clock::now().time_since_epoch()).count();
}

/// Asks rank 0 a few times. Its clock was read between the question and the answer, so the fastest answer says most.
template <Transport T>
clock_offset offset_from_first(T& wire, int questions) {
  clock_offset best{0, std::numeric_limits<std::int64_t>::max()};
  const situation s{.operation = "split", .timeout = wire.timeout()};
  for (int k = 0; k < questions; ++k) {
    std::int64_t theirs = 0;
    const auto asked = trace_time(wire);
    put(wire, 0, reinterpret_cast<const std::byte*>(&theirs), sizeof theirs, s);
    take(wire, 0, reinterpret_cast<std::byte*>(&theirs), sizeof theirs, s);
    const auto answered = trace_time(wire), half = (answered - asked + 1) / 2;
    if (half < best.error) best = {time_between(asked + half, theirs), half + 1};
  }
  return best;
}
template <Transport T>
void answer(T& wire, int peer, int questions) {
  const situation s{.operation = "split", .timeout = wire.timeout()};
  for (int k = 0; k < questions; ++k) {
    std::int64_t mine = 0;
    take(wire, peer, reinterpret_cast<std::byte*>(&mine), sizeof mine, s);
    mine = trace_time(wire);
    put(wire, peer, reinterpret_cast<const std::byte*>(&mine), sizeof mine, s);
  }
}

}  // namespace detail

/// Collective, on a wire on which nothing is under way. Ranks of a node have one clock; the first of each node asks rank 0, one node after the other.
/// Cost  where there are several nodes: two small exchanges through rank 0, and 32 messages for each node; else nothing.
template <Transport T>
clock_offset clock_offset_of(T& wire, int questions = 16) {
  struct said {
    std::int32_t node, local;
    clock_offset found;
  };
  const placement place = wire.place();
  if (place.node_count == 1) return {};
  std::vector<said> all(static_cast<std::size_t>(wire.size()));
  auto& mine = all[static_cast<std::size_t>(wire.rank())];
  mine = {place.node_rank, place.local_rank, {}};
  detail::share(wire, all.data(), sizeof(said));
  const int first_node = all[0].node;
  const auto asks = [&](const said& r) { return r.local == 0 && r.node != first_node; };
  if (asks(mine)) mine.found = detail::offset_from_first(wire, questions);
  for (int r = 1; wire.rank() == 0 && r < wire.size(); ++r)
    if (asks(all[static_cast<std::size_t>(r)])) detail::answer(wire, r, questions);
  detail::share(wire, all.data(), sizeof(said));
  for (const said& r : all)
    if (r.node == place.node_rank && asks(r)) return r.found;
  return {};
}

}  // namespace kolo::inline v0

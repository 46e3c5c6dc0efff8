// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The offset of a rank's clock from rank 0's, measured by messages: hosts count time from different moments.
#pragma once

#include <kolo/transport/abilities.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <chrono>
#include <cstdint>
#include <limits>

namespace kolo::inline KOLO_ABI {

/// Means "no time". All other values are times: a clock may start anywhere, also below zero.
inline constexpr std::int64_t no_time = std::numeric_limits<std::int64_t>::min();

/// This rank's time minus `ns` is rank 0's time, within `error`; both are nanoseconds. Valid at the time of the
/// measurement: clocks of two hosts drift apart by some microseconds per second.
struct clock_offset {
  std::int64_t ns = 0, error = 0;
};

namespace detail::observe {

/// Returns a - b modulo 2^64, without overflow: clocks of two hosts may differ by any amount, and later subtractions
/// make the value small again.
constexpr std::int64_t time_between(std::int64_t a, std::int64_t b) {
  return std::int64_t(std::uint64_t(a) - std::uint64_t(b));
}

/// Returns the time for events in nanoseconds: of the transport's own clock (`now()`, in seconds) if it has one, else
/// of the host's CLOCK_MONOTONIC.
template <class T>
std::int64_t trace_time(const T& transport) {
  if constexpr (SelfClocked<T>) return std::int64_t(transport.now() * 1e9);
  else return std::chrono::duration_cast<std::chrono::nanoseconds>(backoff::clock::now().time_since_epoch()).count();
}

inline constexpr const char* clock_alignment = "clock_offset_of";

/// Exchanges `questions` messages with rank 0, which reads its clock in between: the shortest round trip is best.
clock_offset offset_from_first(Transport auto& transport, int questions) {
  clock_offset best{0, std::numeric_limits<std::int64_t>::max()};
  const wait_context s = transport::setup_of(transport, clock_alignment);
  for (int k = 0; k < questions; ++k) {
    std::int64_t theirs = 0;
    const auto asked = trace_time(transport);
    transport::small_send(transport, 0, reinterpret_cast<const std::byte*>(&theirs), sizeof theirs, s);
    transport::small_receive(transport, 0, reinterpret_cast<std::byte*>(&theirs), sizeof theirs, s);
    const auto answered = trace_time(transport), half = (answered - asked + 1) / 2;
    if (half < best.error) best = {time_between(asked + half, theirs), half + 1};
  }
  return best;
}
void answer(Transport auto& transport, int peer, int questions) {
  const wait_context s = transport::setup_of(transport, clock_alignment);
  for (int k = 0; k < questions; ++k) {
    std::int64_t mine = 0;
    transport::small_receive(transport, peer, reinterpret_cast<std::byte*>(&mine), sizeof mine, s);
    mine = trace_time(transport);
    transport::small_send(transport, peer, reinterpret_cast<const std::byte*>(&mine), sizeof mine, s);
  }
}

}  // namespace detail::observe

/// Collective; no operation may be in flight on the transport. Ranks of a node share one clock: the first rank of each
/// node exchanges messages with rank 0, one node after the other.
/// Cost  with several nodes: two small exchanges through rank 0, and 32 messages for each node; else nothing.
clock_offset clock_offset_of(Transport auto& transport, int questions = 16) {
  struct node_clock {
    std::int32_t node, local;
    clock_offset found;
  };
  const placement place = transport.place();
  if (place.node_count == 1) return {};
  node_clock mine{place.node_rank, place.local_rank, {}};
  auto all = detail::transport::small_allgather(transport, mine, detail::observe::clock_alignment);
  const int first_node = all[0].node;
  const auto asks = [&](const node_clock& r) { return r.local == 0 && r.node != first_node; };
  if (asks(mine)) mine.found = detail::observe::offset_from_first(transport, questions);
  for (int r = 1; transport.rank() == 0 && r < transport.size(); ++r)
    if (asks(all[std::size_t(r)])) detail::observe::answer(transport, r, questions);
  all = detail::transport::small_allgather(transport, mine, detail::observe::clock_alignment);
  for (const node_clock& r : all)
    if (r.node == place.node_rank && asks(r)) return r.found;
  return {};
}

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport of threads and processes over the explorer's memory: the same code, and names for the contents of its region.
#pragma once

#include "explore/explorer.hpp"

#include <kolo/execute/communicator.hpp>
#include <kolo/shm/slot_transport.hpp>

#include <cstddef>
#include <cstdio>
#include <new>
#include <string>

namespace explore {

/// Like the memory of threads; discarded memory must not be accessed any more.
class explored_mapping : public kolo::detail::shm::private_mapping {
 public:
  static constexpr bool is_unrecorded = true;  // a record of each rank's last operations would multiply the states
  std::uint64_t reserve(std::size_t bytes) {
    return static_cast<std::uint64_t>(take(bytes, kolo::detail::shm::region_page) - zone) + 1;
  }
  std::shared_ptr<std::byte> map(std::uint64_t region, std::size_t) const {
    return {std::shared_ptr<void>{}, zone + region - 1};
  }
  void seal(std::uint64_t) const {}
  void discard(std::uint64_t region, std::size_t bytes) const { destroy(zone + region - 1, bytes); }
};

using transport = kolo::detail::shm::slot_transport<explored_mapping>;
static_assert(kolo::SharedMemoryTransport<transport>);

/// Ranks of one region. They are not destroyed at the end, unless that is explored: it would multiply the states.
struct group : scenario {
  group(int size, std::uint32_t slots, std::size_t slot_bytes = 32) : shape{size, {.slot_bytes = slot_bytes}} {
    ranks = size, shape.slots = shape.lines = slots;
  }

  void begin() override {
    // The ranks are fibers of one thread, so they share its record of failures: outside the explored memory, at the same address in each run, and new.
    using record = kolo::detail::transport::unreported_failure;
    ::new (static_cast<void*>(record::of_this_rank().get())) record;
    region = transport::initialise(memory, shape);
  }
  transport& wire(int r) { return *new transport{memory, region, shape, r}; }
  kolo::communicator<transport>& communicator(int r) {
    auto& made = *new kolo::communicator<transport>{memory, region, shape, r};
    keep_private(r, &made.engine()->caller);
    return made;
  }

  std::string name(std::uintptr_t address) const override {
    using namespace kolo::detail::shm;
    const region_layout places{shape};
    const auto at = address - reinterpret_cast<std::uintptr_t>(zone) - (region - 1),
               others = static_cast<std::size_t>(shape.ranks - 1);
    const auto pair = [&](std::size_t i) {
      const auto from = i / others, to = i % others;
      return " " + std::to_string(from) + "->" + std::to_string(to < from ? to : to + 1);
    };
    if (at >= places.end) return "byte " + std::to_string(at + region - 1);
    if (at >= places.spares_at) {
      const auto i = (at - places.spares_at) / places.slot_stride;
      return "spare " + std::to_string(i % shape.spares) + pair(i / shape.spares) + " + " +
             std::to_string((at - places.spares_at) % places.slot_stride);
    }
    if (at >= places.slots_at) {
      const auto i = (at - places.slots_at) / places.slot_stride;
      return "buffer " + std::to_string(i % shape.slots) + pair(i / shape.slots) + " + " +
             std::to_string((at - places.slots_at) % places.slot_stride);
    }
    if (at >= places.lines_at) {
      const auto i = (at - places.lines_at) / 128;
      return "slot " + std::to_string(i % shape.lines) + pair(i / shape.lines) + field((at - places.lines_at) % 128);
    }
    if (places.board_stride > 0 && at >= places.board_buffers_at) {
      const auto i = (at - places.board_buffers_at) / places.board_stride;
      return "buffer " + std::to_string(i % shape.board_buffers) + " of " + std::to_string(i / shape.board_buffers);
    }
    if (at >= places.board_lines_at) {
      const auto i = (at - places.board_lines_at) / 128;
      return "board " + std::to_string(i % shape.board_lines) + " of " + std::to_string(i / shape.board_lines) +
             field((at - places.board_lines_at) % 128);
    }
    if (at >= places.boards_at) return "boards read by " + std::to_string((at - places.boards_at) / 128);
    if (at >= places.exchanges_at)
      return "exchange" + pair((at - places.exchanges_at) / places.exchange_stride) +
             field((at - places.exchanges_at) % places.exchange_stride);
    if (at >= places.credits_at) return "credit" + pair((at - places.credits_at) / sizeof(edge_credit));
    if (at >= places.failures_at) return "failure " + std::to_string((at - places.failures_at) / sizeof(rank_failure));
    if (at < places.states_at)
      return at == 0                                    ? "head.failed"
             : at == 128                                ? "head.left"
             : at == 256                                ? "head.awaited_readers"
             : at == offsetof(region_header, successor) ? "head.successor"
                                                        : "head + " + std::to_string(at);
    const auto in = (at - places.states_at) % sizeof(rank_state);
    return "state " + std::to_string((at - places.states_at) / sizeof(rank_state)) +
           (in == 0                                    ? ".present"
            : in == 4                                  ? ".rings"
            : in == 8                                  ? ".armed"
            : in == offsetof(rank_state, wants_shrink) ? ".wants_shrink"
                                                       : ".id");
  }
  static std::string field(std::size_t at) {
    return at < 8    ? ".number"
           : at < 16 ? ".tag"
           : at < 24 ? ".bytes"
           : at < 28 ? ".claimed"
           : at < 32 ? ".elsewhere"
                     : ".payload + " + std::to_string(at - 32);
  }

  explored_mapping memory{};
  kolo::detail::shm::region_shape shape;
  std::uint64_t region = 0;
};

/// Waits as every driver does, and returns what `look` has found.
template <class Look>
auto await(transport& wire, int peer, Look look) {
  const kolo::wait_context s{.operation = "explore", .peer = peer, .timeout = wire.timeout()};
  auto found = look();
  for (kolo::backoff p; !found; found = look()) wire.relax(p, s);
  return found;
}
/// A received piece, and the number in its payload.
struct found {
  kolo::received_slot piece;
  explicit operator bool() const { return piece.data != nullptr; }
  int value() const { return *reinterpret_cast<const int*>(piece.data); }
};

/// Explores s, and prints the result. False: a violation, or no run has ended.
inline bool holds(const char* name, scenario&& s) {
  const auto v = explore(s);
  std::fflush(stdout);
  std::printf("%-52s %7zu states %6zu runs  %s\n", name, v.states, v.runs, v.violation.c_str());
  return v.violation.empty() && v.ends > 0;
}

}  // namespace explore

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of a schedule: counted, so that it can be compared with its author's formula.
#pragma once

#include <kolo/schedule/family.hpp>
#include <kolo/schedule/semantics.hpp>

#include <cstddef>

namespace kolo::inline KOLO_ABI {

/// The bytes that a transfer's peer number `peer` sends or receives, of a vector of `bytes` that is cut into `blocks`.
[[gnu::noinline]] constexpr std::size_t bytes_in(const block_range& range, int peer, int blocks, int number_of_sets,
                                                 std::size_t bytes) {
  const auto index = [&](int i) { return detail::schedule::block_at(range, i, peer, blocks, number_of_sets) % blocks; };
  const auto first = [&](int b) { return block(bytes, blocks, b).first; };
  if (range.count <= 0) return 0;
  const bool are_neighbours = range.stride == range.run || range.count <= range.run;
  if (are_neighbours && range.count <= blocks && range.cycle == 0) {  // may wrap around the end
    const int from = index(0), last = index(range.count - 1);
    const auto end = block(bytes, blocks, last);
    return end.first + end.count - first(from) + (from <= last ? 0 : bytes);
  }
  std::size_t total = 0;
  for (int i = 0; i < range.count; ++i) total += block(bytes, blocks, index(i)).count;
  return total;
}

/// What one rank does in all rounds. A transfer of a rank to itself is no message, and counts in `combined` only.
struct cost {
  int rounds = 0;            ///< of the schedule, including those in which the rank is idle
  std::size_t messages = 0;  ///< messages sent
  std::size_t sent = 0;      ///< bytes
  std::size_t received = 0;  ///< bytes
  std::size_t combined = 0;  ///< bytes that arrive and go through the operator
};

namespace detail::schedule {
inline constexpr auto one_link = [](int, int) { return 0U; };

/// Adds what transfer t costs rank r of p to the total of each kind of link. `link(r, peer)`: the kind of that link.
[[gnu::noinline]] constexpr void add_cost(cost* totals, const transfer& t, int r, int p, kind k, int blocks,
                                          std::size_t bytes, auto link) {
  for (int i = 0; i < t.to.count; ++i)
    if (const int peer = t.to.at(i, p); peer != r) {
      ++totals[link(r, peer)].messages;
      totals[link(r, peer)].sent += bytes_in(t.send, i, blocks, block_sets(k), bytes);
    }
  for (int i = 0; i < t.from.count; ++i) {
    const int peer = t.from.at(i, p);
    const auto arrived = bytes_in(t.receive, i, blocks, block_sets(k), bytes);
    if (peer != r) totals[link(r, peer)].received += arrived;
    if (t.then != arrival::replace) totals[link(r, peer)].combined += arrived;
  }
}
}  // namespace detail::schedule

/// The cost for rank r of p. `bytes`: of the vector; of all parts together where each rank has one. A call cuts each
/// part, in elements, and `cost_of` the whole, in bytes: where the blocks do not divide both, messages differ slightly.
template <Schedule S>
constexpr cost cost_of(const S& s, int r, int p, std::size_t bytes) {
  cost total{.rounds = s.rounds(p)};
  const int blocks = s.blocks(p);
  for (int k = 0; k < total.rounds; ++k)
    for (const transfer& t : step{s.at(r, p, k)})
      detail::schedule::add_cost(&total, t, r, p, S::collective, blocks, bytes, detail::schedule::one_link);
  return total;
}
constexpr cost cost_of(const detail::schedule::ManySchedules auto& a, int r, int p, std::size_t bytes) {
  return detail::schedule::with_one<cost>(a, [&](const auto& s) { return cost_of(s, r, p, bytes); });
}

}  // namespace kolo::inline KOLO_ABI

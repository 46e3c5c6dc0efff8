// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The time of a schedule on a network: the same function (rank, size, round) -> step, run against a clock.
#pragma once

#include <kolo/schedule/family.hpp>
#include <kolo/simulate/event_driven.hpp>
#include <kolo/simulate/round_by_round.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace kolo::inline KOLO_ABI::detail::simulate {

/// Whether all ranks have the same clock, so that one of them is enough.
inline bool are_alike(const schedule::erased_schedule& s, const kolo::simulate::network& n) {
  return s.relative && n.ranks_per_node == 0 && n.noise == 0 && n.stragglers.empty();
}

inline double run(const schedule::erased_schedule& s, std::size_t bytes, const kolo::simulate::network& n) {
  if (are_alike(s, n)) {
    const auto blocks = std::size_t(s.blocks), longest = bytes / blocks + (bytes % blocks == 0 ? 0 : 1);
    return moved_rounds{s, longest * blocks, n, 1}.run();
  }
  if (n.cards_per_node > 0) return event_driven<machine>{s, bytes, n}.run();
  if (s.relative && bytes % std::size_t(s.blocks) == 0) return moved_rounds{s, bytes, n, s.size}.run();
  return round_by_round{s, bytes, n}.run();
}

}  // namespace kolo::inline KOLO_ABI::detail::simulate

namespace kolo::inline KOLO_ABI::simulate {

/// The seconds until the last of `ranks` ranks is done; all begin at 0. `bytes`: of the vector; of all parts together
/// where each rank has one. The root of a rooted collective is rank 0.
///
/// `network` and `detail::simulate::machine` state the rules of time. In each round a rank carries out its transfers to
/// itself, sends its messages one after the other, takes the messages of this round, combines them, and begins the next
/// round; there is no other synchronisation. A message without bytes is not sent, unless the vector has none at all.
/// `virtual_time::run` is the same clock for whole programs.
///
/// The schedule is not checked: prove it first (`kolo::verify`). The run takes time in proportion to the messages: some
/// thirty nanoseconds each if the schedule is `relative` and its blocks are equally long, up to a hundred otherwise; in
/// proportion to the rounds alone if ranks do not differ: a `relative` schedule, one level, no noise and no stragglers.
/// All blocks then count as long as the longest, which is exact if the blocks divide the bytes. With cards a message
/// takes some hundred nanoseconds, more with many ranks.
template <Schedule S>
double run(const S& schedule, int ranks, std::size_t bytes, const network& n) {
  if (ranks < 1)
    throw std::invalid_argument("kolo::simulate: " + std::to_string(ranks) + " ranks; there must be one at least");
  if (ranks == 1) return 0;
  detail::simulate::require_supported(ranks, supports(schedule, ranks));
  return detail::simulate::run(detail::schedule::erased<S>{schedule, ranks}, bytes, n);
}
template <detail::schedule::ManySchedules A>
double run(const A& a, int ranks, std::size_t bytes, const network& n) {
  return detail::schedule::with_one<double>(a, [&](const auto& s) { return run(s, ranks, bytes, n); });
}

}  // namespace kolo::inline KOLO_ABI::simulate

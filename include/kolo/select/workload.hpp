// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the work of a schedule on its ranks, to predict its time.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/execute/pattern.hpp>
#include <kolo/schedule/cost.hpp>
#include <kolo/schedule/cost_model.hpp>

#include <algorithm>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::select {

/// The longest chain of messages that depend on one another, each weighted by `length(from, to)`. A rank waits for all
/// messages of a round before it begins the next.
[[gnu::cold, gnu::noinline]] int longest_chain(const execute::schedule_ref& s, int size, auto length) {
  const core::dynarray<int> both(2 * std::size_t(size));
  int *before = both.begin(), *after = before + size;
  for (int round = 0; round < s.rounds; ++round) {
    for (int r = 0; r < size; ++r) after[r] = before[r];
    for (int r = 0; r < size; ++r)
      for (const transfer& t : s.at(s.self, r, size, round))
        for (int i = 0; i < t.to.count; ++i) {
          const int peer = t.to.at(i, size);
          if (peer != r) after[peer] = std::max(after[peer], before[r] + length(r, peer));
        }
    std::swap(before, after);
  }
  int longest = 0;
  for (int r = 0; r < size; ++r) longest = std::max(longest, before[r]);
  return longest;
}

/// Counts for rank 0 if all ranks have the same load, else for all ranks, or 16 of many: the maximum, of `shared` the
/// mean. `on_board`: data is sent once, to all (`execute::uses_board`).
[[gnu::cold, gnu::noinline]] inline workload workload_of(const execute::schedule_ref& s, kind k, int size,
                                                         std::size_t bytes, bool is_relative, bool on_board = false) {
  constexpr int most = 16, many = 256;
  const int ranks_tried = is_relative ? 1 : std::min(size, most);
  workload l{.rounds = double(s.rounds), .hops = double(s.rounds)};
  if (!is_relative && size <= many) l.hops = longest_chain(s, size, [](int, int) { return 1; });
  for (int i = 0; i < ranks_tried; ++i) {
    const int r = ranks_tried == 1 ? 0 : int(static_cast<long long>(i) * (size - 1) / (ranks_tried - 1));
    cost one;
    std::size_t heard = 0, duplex_rounds = 0;
    for (int round = 0; round < s.rounds; ++round) {
      const cost before = one;
      for (const transfer& t : s.at(s.self, r, size, round)) {
        schedule::add_cost(one, t, r, k, s.blocks, bytes);
        if (t.from.first != r) heard += std::size_t(t.from.count);
      }
      if (one.sent > before.sent && one.received > before.received) ++duplex_rounds;
    }
    const auto larger = [](double so_far, std::size_t a, std::size_t b = 0) {
      return std::max(so_far, double(std::max(a, b)));
    };
    l.duplex_rounds = larger(l.duplex_rounds, duplex_rounds);
    l.messages = larger(l.messages, one.messages, heard);
    l.bytes = larger(l.bytes, one.sent, one.received);
    l.combined = larger(l.combined, one.combined);
    l.shared += double(one.sent) / ranks_tried;
  }
  if (on_board) {
    l.bytes /= l.messages;
    l.messages = 1;
  }
  return l;
}

}  // namespace kolo::inline KOLO_ABI::detail::select

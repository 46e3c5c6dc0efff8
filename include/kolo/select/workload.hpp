// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the work of a schedule on its ranks, to predict its time.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/execute/pattern.hpp>
#include <kolo/schedule/cost.hpp>
#include <kolo/schedule/cost_model.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::select {

inline constexpr int most_ranks_tried = 16;

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

/// Sets `most` to the work of a schedule on each of `Links` kinds of links, without hops: the maximum over
/// `ranks_tried` of the ranks, of `shared` the mean. `link(a, b)`: the kind of the link between two ranks.
template <std::size_t Links>
[[gnu::cold, gnu::noinline]] void count_work(workload* most, const execute::schedule_ref& s, kind k, int size,
                                             std::size_t bytes, int ranks_tried, auto link) {
  struct on_links {
    cost moved[Links]{};
    std::size_t heard[Links]{};
  };
  for (int i = 0; i < ranks_tried; ++i) {
    const int r = ranks_tried == 1 ? 0 : int(static_cast<long long>(i) * (size - 1) / (ranks_tried - 1));
    workload one[Links]{};
    on_links all;
    auto& [moved, heard] = all;
    for (int round = 0; round < s.rounds; ++round) {
      const auto before = all;
      for (const transfer& t : s.at(s.self, r, size, round)) {
        schedule::add_cost(moved, t, r, size, k, s.blocks, bytes, link);
        for (int m = 0; m < t.from.count; ++m)
          if (const int peer = t.from.at(m, size); peer != r) ++heard[link(r, peer)];
      }
      for (std::size_t w = 0; w < Links; ++w) {
        const bool sends = moved[w].sent > before.moved[w].sent,
                   receives = moved[w].received > before.moved[w].received;
        one[w].rounds += sends || receives;
        one[w].duplex_rounds += sends && receives;
      }
    }
    for (std::size_t w = 0; w < Links; ++w) {
      const auto larger = [](double& so_far, double x) { so_far = std::max(so_far, x); };
      larger(most[w].rounds, one[w].rounds);
      larger(most[w].duplex_rounds, one[w].duplex_rounds);
      larger(most[w].messages, double(std::max(moved[w].messages, heard[w])));
      larger(most[w].bytes, double(std::max(moved[w].sent, moved[w].received)));
      larger(most[w].combined, double(moved[w].combined));
      most[w].shared += double(moved[w].sent) / ranks_tried;
    }
  }
}

/// Counts for rank 0 if all ranks have the same load, else for all ranks, or 16 of many. `on_board`: data is sent once,
/// to all (`execute::uses_board`).
[[gnu::cold, gnu::noinline]] inline workload workload_of(const execute::schedule_ref& s, kind k, int size,
                                                         std::size_t bytes, bool is_relative, bool on_board = false) {
  constexpr int many = 256;
  const int ranks_tried = is_relative ? 1 : std::min(size, most_ranks_tried);
  workload l;
  count_work<1>(&l, s, k, size, bytes, ranks_tried, schedule::one_link);
  l.rounds = l.hops = double(s.rounds);
  if (!is_relative && size <= many) l.hops = longest_chain(s, size, [](int, int) { return 1; });
  if (on_board) {
    l.bytes /= l.messages;
    l.messages = 1;
  }
  return l;
}

}  // namespace kolo::inline KOLO_ABI::detail::select

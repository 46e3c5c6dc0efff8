// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The clock of a schedule on a graph, where messages contend for every link on their path.
#pragma once

#include <kolo/schedule/routes.hpp>
#include <kolo/simulate/event_driven.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::simulate {

/// * Sending takes a processor the `overhead` of the first link on the path, receiving that of the last.
/// * A message enters a link when the link is free, and occupies it for its bytes and `gap`. After `latency` its first
///   byte is at the other end and enters the next link; its last byte does not arrive before it has left the slowest
///   link.
/// * Combining n bytes takes a processor n * seconds_per_byte_reduced, as in a network.
template <class Graph>
class links {
 public:
  struct position {
    std::size_t link = 0;  ///< index in its path
    double last_byte = 0;
  };

  links(int ranks, const Graph& graph, std::size_t block_bytes)
      : graph_{graph},
        routes_{graph, block_bytes},
        now_(std::size_t(ranks)),
        free_(graph.edges().size()),
        paths_(now_.size() * now_.size()) {}

  double now(int r) const { return now_[std::size_t(r)]; }
  void combine(int r, std::size_t bytes) { now_[std::size_t(r)] += double(bytes) * graph_.seconds_per_byte_reduced; }
  double send(int from, int to, std::size_t) {
    return now_[std::size_t(from)] += link_of(path(from, to).front()).overhead;
  }
  static constexpr bool is_shared(int, int) { return true; }
  bool pass_link(int to, incoming& a, position& p) {
    const auto& all = path(a.from, to);
    const int e = all[p.link];
    const auto& l = link_of(e);
    double& is_free = free_[std::size_t(e)];
    const double enters = std::max(a.at, is_free), occupied = double(a.bytes) * l.seconds_per_byte;
    is_free = enters + occupied + l.gap;
    a.at = enters + l.latency;
    p.last_byte = std::max(p.last_byte, enters + occupied) + l.latency;
    if (++p.link < all.size()) return false;
    a.at = p.last_byte;
    return a.is_in = true;
  }
  void take(int r, std::vector<incoming>& all) {
    double& me = now_[std::size_t(r)];
    std::stable_sort(all.begin(), all.end(), [](const incoming& a, const incoming& b) { return a.at < b.at; });
    for (const incoming& a : all) me = std::max(me, a.at) + link_of(path(a.from, r).back()).overhead;
  }

 private:
  const auto& link_of(int e) const { return graph_.edges()[std::size_t(e)].times; }
  const std::vector<int>& path(int from, int to) {
    auto& all = paths_[std::size_t(from) * now_.size() + std::size_t(to)];
    if (all.empty()) all = routes_.path(from, to);
    if (all.empty()) no_path(from, to);
    return all;
  }
  [[noreturn]] static void no_path(int from, int to) {
    throw std::invalid_argument("kolo::simulate: there is no path from rank " + std::to_string(from) + " to rank " +
                                std::to_string(to));
  }

  const Graph& graph_;
  schedule::routes<Graph> routes_;
  std::vector<double> now_, free_;       // by rank: time of its processor; by link: time from which it is free
  std::vector<std::vector<int>> paths_;  // computed when first used
};

template <class Graph>
double run_over_links(const schedule::erased_schedule& s, std::size_t bytes, const Graph& g) {
  return event_driven<links<Graph>>{s, bytes, g, bytes / std::size_t(s.blocks)}.run();
}

}  // namespace kolo::inline KOLO_ABI::detail::simulate

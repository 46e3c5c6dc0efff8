// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shortest paths through a graph of links: `kolo::simulate::graph`, or a type with the same members.
#pragma once

#include <kolo/config.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// For each pair of ranks, the path on which a message of this number of bytes is fastest, as indices of edges.
template <class Graph>
class routes {
 public:
  routes(const Graph& g, std::size_t bytes, bool over_switches_only = false)
      : graph_{g}, leaving_(std::size_t(g.vertices())) {
    for (std::size_t e = 0; e < g.edges().size(); ++e) leaving_[std::size_t(g.edges()[e].from)].push_back(int(e));
    for (int r = 0; r < g.ranks(); ++r) last_.push_back(from(r, double(bytes), over_switches_only));
  }

  bool exists(int from, int to) const { return from == to || last(from, to) >= 0; }
  /// Empty if there is no path.
  std::vector<int> path(int from, int to) const {
    std::vector<int> all;
    for (int v = to; v != from && last(from, v) >= 0; v = graph_.edges()[std::size_t(all.back())].from)
      all.push_back(last(from, v));
    std::reverse(all.begin(), all.end());
    return all;
  }

 private:
  int last(int from, int to) const { return last_[std::size_t(from)][std::size_t(to)]; }

  /// Dijkstra's algorithm: the edge over which each vertex is reached. Of equally fast paths, the one with fewer links.
  std::vector<int> from(int root, double bytes, bool over_switches_only) const {
    const auto n = std::size_t(graph_.vertices());
    struct reached {
      double seconds;
      int links, vertex;
      bool operator>(const reached& o) const { return std::pair{seconds, links} > std::pair{o.seconds, o.links}; }
    };
    std::vector<std::pair<double, int>> best(n, {std::numeric_limits<double>::infinity(), 0});
    std::vector<int> over(n, -1);
    std::priority_queue<reached, std::vector<reached>, std::greater<>> next;
    best[std::size_t(root)] = {0, 0};
    next.push({0, 0, root});
    while (!next.empty()) {
      const reached now = next.top();
      next.pop();
      const auto v = std::size_t(now.vertex);
      if (std::pair{now.seconds, now.links} > best[v]) continue;
      if (over_switches_only && now.vertex != root && !graph_.is_switch(now.vertex)) continue;
      for (const int e : leaving_[v]) {
        const auto& edge = graph_.edges()[std::size_t(e)];
        const std::pair cost{now.seconds + edge.times.latency + bytes * edge.times.seconds_per_byte, now.links + 1};
        if (cost >= best[std::size_t(edge.to)]) continue;
        best[std::size_t(edge.to)] = cost;
        over[std::size_t(edge.to)] = e;
        next.push({cost.first, cost.second, edge.to});
      }
    }
    return over;
  }

  const Graph& graph_;
  std::vector<std::vector<int>> leaving_;  // by the vertex that they leave
  std::vector<std::vector<int>> last_{};   // for each rank, the last edge to each vertex
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The least time of a collective on a graph of links, whatever the schedule: by maximum flows.
#pragma once

#include <kolo/core/kind.hpp>
#include <kolo/schedule/routes.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {

/// Maximum flows, in bytes per second, from a source with an arc of its own to every rank. Dinic's algorithm.
template <class Graph>
class flows {
 public:
  static constexpr double unlimited = 1e30;

  explicit flows(const Graph& g) : ranks_{g.ranks()}, source_{g.vertices()}, of_(at(g.vertices()) + 1) {
    for (const auto& e : g.edges())
      add(e.from, e.to, e.times.seconds_per_byte > 0 ? 1 / e.times.seconds_per_byte : unlimited);
    for (int r = 0; r < ranks_; ++r) add(source_, r, 0);
    first_of_source_ = arcs_.size() - 2 * at(ranks_);
  }

  double into(int vertex) const {
    double all = 0;
    for (std::size_t a = 0; a < first_of_source_; a += 2)
      if (arcs_[a].to == vertex) all += arcs_[a].capacity;
    return all;
  }
  /// The flow into `sink` if the source's arcs to the ranks carry `pipe` each; `only`: the arc to this rank alone.
  double to(int sink, double pipe, int only = -1) {
    for (arc& a : arcs_) a.left = a.capacity;
    for (int r = 0; r < ranks_; ++r) arcs_[first_of_source_ + 2 * at(r)].left = only < 0 || only == r ? pipe : 0;
    scale_ = 0;
    for (const arc& a : arcs_) scale_ = std::max(scale_, a.capacity < unlimited ? a.capacity : 0);
    double all = 0;
    while (is_reached(sink)) {
      next_.assign(of_.size(), 0);
      for (double f = push(source_, sink, unlimited); f > 0; f = push(source_, sink, unlimited)) all += f;
    }
    return all;
  }
  /// After `to`: the ranks on the source's side of a minimum cut, and the capacity of the graph's arcs that leave it.
  int ranks_in_cut() const {
    return int(std::count_if(level_.begin(), level_.begin() + ranks_, [](int l) { return l >= 0; }));
  }
  double out_of_cut() const {
    double all = 0;
    for (std::size_t v = 0; v + 1 < of_.size(); ++v)
      for (const std::size_t a : of_[v])
        if (level_[v] >= 0 && level_[at(arcs_[a].to)] < 0) all += arcs_[a].capacity;
    return all;
  }

 private:
  struct arc {
    int to;
    double capacity, left;
  };
  static std::size_t at(int i) { return std::size_t(i); }
  bool has_room(std::size_t a) const { return arcs_[a].left > 1e-12 * scale_; }

  void add(int from, int to, double capacity) {
    of_[at(from)].push_back(arcs_.size());
    arcs_.push_back({to, capacity, 0});
    of_[at(to)].push_back(arcs_.size());
    arcs_.push_back({from, 0, 0});
  }
  bool is_reached(int sink) {
    level_.assign(of_.size(), -1);
    level_[at(source_)] = 0;
    std::vector<int> queue{source_};
    for (std::size_t i = 0; i < queue.size(); ++i)
      for (const std::size_t a : of_[at(queue[i])])
        if (has_room(a) && level_[at(arcs_[a].to)] < 0) {
          level_[at(arcs_[a].to)] = level_[at(queue[i])] + 1;
          queue.push_back(arcs_[a].to);
        }
    return level_[at(sink)] >= 0;
  }
  double push(int v, int sink, double most) {
    if (v == sink) return most;
    for (auto& i = next_[at(v)]; i < of_[at(v)].size(); ++i) {
      const std::size_t a = of_[at(v)][i];
      if (!has_room(a) || level_[at(arcs_[a].to)] != level_[at(v)] + 1) continue;
      const double f = push(arcs_[a].to, sink, std::min(most, arcs_[a].left));
      if (f <= 0) continue;
      arcs_[a].left -= f;
      arcs_[a ^ 1].left += f;
      return f;
    }
    return 0;
  }

  int ranks_, source_;
  std::vector<std::vector<std::size_t>> of_;  // arcs, by the vertex that they leave
  std::vector<arc> arcs_{};                   // in pairs, forward and reverse
  std::size_t first_of_source_ = 0;
  std::vector<int> level_{};
  std::vector<std::size_t> next_{};
  double scale_ = 0;
};

/// The bytes per second at which every rank can receive from all others at once, equally from each: the minimum, over
/// all sets of ranks and switches that lack some rank, of the capacity that leaves the set per rank in it.
template <class Graph>
double rate_of_allgather(const Graph& g) {
  flows<Graph> f{g};
  const int p = g.ranks();
  double rate = std::numeric_limits<double>::infinity();
  for (int r = 0; r < p; ++r) rate = std::min(rate, f.into(r) / (p - 1));
  for (int r = 0; r < p;) {
    if (rate <= 0) return 0;
    if (f.to(r, rate) < rate * p * (1 - 1e-9)) {
      const double less = f.out_of_cut() / std::max(1, f.ranks_in_cut());
      if (less >= rate) return rate;  // rounding
      rate = less, r = 0;             // a narrower cut: all ranks are checked again at its rate
    } else {
      ++r;
    }
  }
  return rate;
}

template <class Graph>
double rate_of_broadcast(const Graph& g, int root) {
  flows<Graph> f{g};
  double rate = std::numeric_limits<double>::infinity();
  for (int r = 0; r < g.ranks(); ++r)
    if (r != root) rate = std::min(rate, f.to(r, flows<Graph>::unlimited, root));
  return rate;
}

/// The latency in seconds between the two ranks that are farthest apart; from `root` only, if root >= 0.
template <class Graph>
double longest_latency(const Graph& g, int root) {
  const routes<Graph> all{g, 0};
  double most = 0;
  for (int a = 0; a < g.ranks(); ++a)
    for (int b = 0; b < g.ranks(); ++b) {
      if (a == b || (root >= 0 && a != root)) continue;
      double one = 0;
      for (const int e : all.path(a, b)) one += g.edges()[std::size_t(e)].times.latency;
      most = std::max(most, one);
    }
  return most;
}

}  // namespace detail::schedule

/// A lower bound, in seconds, of every schedule of this kind on the graph: the greatest of
///
/// * for every set of ranks and switches, the bytes that must leave it over the bandwidth of the links that leave it
/// * for an allreduce, 2 (p-1) times its bytes over the bandwidth of all links into ranks (switches combine nothing)
/// * the latency between the two ranks that are farthest apart; of a rooted kind, between one and the root
///
/// `bytes`: of the vector; of all parts together where each rank has one. The bound is infinite if some rank cannot be
/// reached. It leaves out overheads and the time to combine.
/// Cost    p maximum flows, or a few times as many.
/// Errors  std::invalid_argument: no bound for this kind.
/// Source  Zhao et al., "ForestColl: throughput-optimal collective communications on heterogeneous network fabrics",
///         arXiv 2402.06787.
template <class Graph>
double cut_bound(kind k, const Graph& g, std::size_t bytes, int root = 0) {
  namespace impl = detail::schedule;
  const int p = g.ranks();
  const auto n = double(bytes);
  if (p == 1) return 0;
  switch (k) {
    case kind::allgather: return std::max(n / p / impl::rate_of_allgather(g), impl::longest_latency(g, -1));
    case kind::reduce_scatter: return cut_bound(kind::allgather, g.transposed(), bytes);
    case kind::broadcast: return std::max(n / impl::rate_of_broadcast(g, root), impl::longest_latency(g, root));
    case kind::reduce: return cut_bound(kind::broadcast, g.transposed(), bytes, root);
    case kind::allreduce: {
      const impl::flows<Graph> all{g};
      double into = 0;
      for (int r = 0; r < p; ++r) into += all.into(r);
      const double cuts = n / std::min(impl::rate_of_broadcast(g, root), impl::rate_of_broadcast(g.transposed(), root));
      return std::max({cuts, 2.0 * (p - 1) * n / into, impl::longest_latency(g, -1)});
    }
    default: throw std::invalid_argument("kolo::cut_bound: allreduce, reduce_scatter, allgather, broadcast or reduce");
  }
}

}  // namespace kolo::inline KOLO_ABI

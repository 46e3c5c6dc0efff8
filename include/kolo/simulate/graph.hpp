// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A network as a graph: links between ranks and switches, each with a latency and a bandwidth of its own.
#pragma once

#include <kolo/core/text.hpp>
#include <kolo/simulate/links.hpp>
#include <kolo/simulate/network.hpp>

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::simulate {

/// A directed graph: ranks 0 ... ranks() - 1, then switches, which only forward. A link carries one message after the
/// other: a message of n bytes occupies it for n * seconds_per_byte and `gap`. Messages between ranks without a link
/// take a path over other ranks and switches, and contend there with all others.
///
///   auto g = kolo::simulate::graph::torus({4, 4}, {.latency = 1e-6, .seconds_per_byte = 1e-10});
///   g.remove(0, 1);                                               // one way
///   g.link(2, 3, {.latency = 1e-6, .seconds_per_byte = 1e-9});    // both ways; replaces the link
///
/// Errors  std::invalid_argument: a vertex that does not exist, a link from a vertex to itself, negative or infinite
///         times, more than 2^29 ranks or switches.
class graph {
 public:
  /// A link in one direction.
  struct edge {
    int from, to;
    simulate::link times;
  };

  explicit graph(int ranks = 1, int switches = 0) : ranks_{ranks} {
    require(ranks >= 1 && switches >= 0, "a graph has at least one rank, and no negative number of switches");
    require(ranks <= most && switches <= most, "a graph has 2^29 ranks, and so many switches, at most");
    vertices_ = ranks + switches;
  }
  /// Each rank is linked to the next, and the last to the first.
  static graph ring(int ranks, const simulate::link& times) { return torus({ranks}, times); }
  /// A grid whose opposite sides are linked; the first of `sizes` varies slowest. A side of two ranks has one link.
  static graph torus(const std::vector<int>& sizes, const simulate::link& times) {
    int all = 1;
    for (const int n : sizes) all = product(all, n);
    graph g{all};
    int stride = all;
    for (const int n : sizes) {
      const int digit = stride /= n;
      for (int r = 0; r < all && n > 1; ++r) g.link(r, r / digit % n == n - 1 ? r - (n - 1) * digit : r + digit, times);
    }
    return g;
  }
  /// 2^dimensions ranks; those whose numbers differ in one bit are linked.
  static graph hypercube(int dimensions, const simulate::link& times) {
    require(dimensions >= 0 && dimensions < 30, "a hypercube has 0 to 29 dimensions");
    return torus(std::vector<int>(std::size_t(dimensions), 2), times);
  }
  /// Ranks around one switch.
  static graph star(int ranks, const simulate::link& times) {
    graph g{ranks, 1};
    for (int r = 0; r < ranks; ++r) g.link(r, ranks, times);
    return g;
  }
  /// Nodes whose ranks are linked to a switch each, as in a machine of GPUs; every rank has a second port, to the one
  /// switch between nodes.
  static graph two_level(int nodes, int ranks_per_node, const simulate::link& inside, const simulate::link& outside) {
    const int all = product(nodes, ranks_per_node);
    graph g{all, nodes + 1};
    for (int r = 0; r < all; ++r) g.link(r, all + 1 + r / ranks_per_node, inside), g.link(r, all, outside);
    return g;
  }

  /// Replaces existing links between the two.
  graph& link(int a, int b, const simulate::link& times) {
    return link_one_way(a, b, times), link_one_way(b, a, times);
  }
  graph& link_one_way(int from, int to, const simulate::link& times) {
    require(exists(from) && exists(to) && from != to, "a link joins two ranks or switches of the graph");
    for (const double t : {times.latency, times.overhead, times.gap, times.seconds_per_byte})
      require(is_time(t), "the times of a link are not negative, and finite");
    remove(from, to);
    edges_.push_back({from, to, times});
    return *this;
  }
  /// Removes one direction; does nothing if there is no such link.
  graph& remove(int from, int to) {
    std::erase_if(edges_, [&](const edge& e) { return e.from == from && e.to == to; });
    return *this;
  }

  int ranks() const { return ranks_; }
  int vertices() const { return vertices_; }  ///< ranks and switches
  const std::vector<edge>& edges() const { return edges_; }
  bool is_switch(int vertex) const { return vertex >= ranks_; }
  /// The graph with every link reversed.
  graph transposed() const {
    graph g = *this;
    for (edge& e : g.edges_) std::swap(e.from, e.to);
    return g;
  }
  double seconds_per_byte_reduced = 0;  ///< of a processor that combines received data

  static bool is_time(double t) { return t >= 0 && t <= std::numeric_limits<double>::max(); }

 private:
  static constexpr int most = 1 << 29;
  static int product(int a, int b) {
    require(a >= 1 && b >= 1 && a <= most / b,
            "the sides of a torus, the nodes and their ranks are from 1 to 2^29 in all");
    return a * b;
  }
  static void require(bool fine, const char* what) {
    if (!fine) throw std::invalid_argument(std::string{"kolo::simulate::graph: "} + what);
  }
  bool exists(int vertex) const { return vertex >= 0 && vertex < vertices_; }

  int ranks_, vertices_ = 0;
  std::vector<edge> edges_{};
};

/// The seconds until the last of the graph's ranks is done, as `run` on a network; `detail::simulate::links` has the
/// rules. A message takes the path on which one block is fastest.
///
/// Errors  std::invalid_argument: a number of ranks that is not the graph's, or that the schedule does not support; a
///         message without a path; a time to combine that is negative or infinite.
template <Schedule S>
double run(const S& schedule, int ranks, std::size_t bytes, const graph& g) {
  if (ranks != g.ranks())
    throw std::invalid_argument("kolo::simulate: " + detail::core::ranks_text(ranks) + " on a graph of " +
                                std::to_string(g.ranks()));
  detail::simulate::require_supported(ranks, supports(schedule, ranks));
  if (!graph::is_time(g.seconds_per_byte_reduced))
    throw std::invalid_argument("kolo::simulate: seconds_per_byte_reduced is not negative, and finite");
  if (ranks == 1) return 0;
  return detail::simulate::run_over_links(detail::schedule::erased<S>{schedule, ranks}, bytes, g);
}
template <detail::schedule::KnowsItsKind A>
double run(const A& known, int ranks, std::size_t bytes, const graph& g) {
  return known.with_schedule([&](const auto& s) { return run(s, ranks, bytes, g); });
}

}  // namespace kolo::inline KOLO_ABI::simulate

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Simulates every algorithm.
#include "predict.hpp"

#include <kolo/schedule/catalogue.hpp>
#include <kolo/simulate/run.hpp>

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace scaling {
namespace {

using kolo::kind;
using kolo::simulate::network;

constexpr int segments[] = {4, 16, 64, 256};

/// Calls see(name, family) for algorithms with parameters.
template <class See>
void for_each_variant(const network& n, See see) {
  for (const int s : segments) {
    const auto braces = "{" + std::to_string(s) + "}";
    see("chain" + braces, kolo::chain{s});
    see("double_tree" + braces, kolo::double_tree{s});
    see("circulant_pipelined" + braces, kolo::circulant_pipelined{s});
  }
  if (n.ranks_per_node == 0) return;
  const kolo::topology nodes{.ranks_per_node = n.ranks_per_node};
  see("two_level<circulant, circulant>", kolo::two_level<kolo::circulant, kolo::circulant>{.nodes = nodes});
  see("two_level<two_shot, circulant>", kolo::two_level<kolo::two_shot, kolo::circulant>{.nodes = nodes});
  see("two_level<two_shot, recursive_doubling>",
      kolo::two_level<kolo::two_shot, kolo::recursive_doubling>{.nodes = nodes});
  see("two_level<ring, ring>", kolo::two_level<kolo::ring, kolo::ring>{.nodes = nodes});
}

/// Whether for_each_variant has this algorithm, with several parameters.
bool has_variants(const std::string& name) {
  return name == "chain" || name == "double_tree" || name == "circulant_pipelined" || name == "two_level";
}

/// Calls see(name, schedule) for all schedules of kind K.
template <kind K, class See>
void for_each_schedule(const network& n, See see) {
  const auto consider = [&](const std::string& name, const auto& family) {
    if constexpr (kolo::AlgorithmFor<std::remove_cvref_t<decltype(family)>, K>) see(name, kolo::schedule_of<K>(family));
  };
  kolo::for_each_family([&](const std::string& name, const auto& family) {
    if (!has_variants(name)) consider(name, family);
  });
  for_each_variant(n, consider);
}

template <kind K>
prediction fastest_of(int ranks, std::size_t bytes, const network& n, const std::string& only, seconds_before* before) {
  std::optional<prediction> best;
  bool is_known = false;
  for_each_schedule<K>(n, [&](const std::string& name, const auto& schedule) {
    if (!only.empty() && name != only) return;
    is_known = true;
    if (!kolo::supports(schedule, ranks)) return;
    // Skips algorithms that were slower for fewer bytes; 20 %: a simulated time may decrease a little with the size.
    if (before && best && (*before)[name] > 1.2 * best->seconds) return;
    const double seconds = kolo::simulate::run(schedule, ranks, bytes, n);
    if (before) (*before)[name] = seconds;
    if (!best || seconds < best->seconds * (1 - 1e-9)) best = prediction{name, seconds};
  });
  if (!is_known)
    throw std::invalid_argument("there is no " + std::string{kolo::name(K)} + " \"" + only + "\" for this network");
  if (!best) throw std::invalid_argument("\"" + only + "\" does not support " + std::to_string(ranks) + " ranks");
  return *best;
}

template <class See>
void with_kind(kind k, See see) {
  switch (k) {
    case kind::allreduce: return see.template operator()<kind::allreduce>();
    case kind::broadcast: return see.template operator()<kind::broadcast>();
    case kind::allgather: return see.template operator()<kind::allgather>();
    default: throw std::invalid_argument(std::string{"no prediction for "} + kolo::name(k));
  }
}

/// The fraction of the vector that each of `parts` equal groups of ranks must receive, on average.
double share_of(kind k, double parts) {
  switch (k) {
    case kind::allreduce: return 2 * (parts - 1) / parts;
    case kind::allgather: return (parts - 1) / parts;
    default: return 1;  // all but one of them
  }
}

}  // namespace

std::vector<std::string> algorithms_for(kind k, const network& n) {
  std::vector<std::string> names;
  with_kind(k, [&]<kind K>() {
    for_each_schedule<K>(n, [&](const std::string& name, const auto&) { names.push_back(name); });
  });
  return names;
}

prediction fastest(kind k, int ranks, std::size_t bytes, const network& n, const std::string& only,
                   seconds_before* before) {
  prediction p;
  with_kind(k, [&]<kind K>() { p = fastest_of<K>(ranks, bytes, n, only, before); });
  return p;
}

double bound(kind k, int ranks, std::size_t bytes, const network& n) {
  if (ranks == 1) return 0;
  const auto alpha = [](const kolo::simulate::link& l) { return l.latency + 2 * l.overhead; };
  const double size = double(bytes), into_rank = share_of(k, ranks) * size, outside = n.seconds_per_byte,
               inside = n.inside.seconds_per_byte;
  const int m = n.ranks_per_node;
  if (m == 0) return alpha(n.outside()) + into_rank * outside;
  if (ranks <= m) return alpha(n.inside) + into_rank * inside;
  const double both = inside * outside > 0 ? inside * outside / (inside + outside) : 0;  // both ports at once
  const double ways_out = n.cards_per_node > 0 ? n.cards_per_node : m, nodes = double((ranks + m - 1) / m);
  const double into_node = share_of(k, k == kind::allgather ? double(ranks) / m : nodes) * size;
  return std::max({alpha(n.outside()) + into_node * outside / ways_out,
                   std::min(alpha(n.inside), alpha(n.outside())) + into_rank * both});
}

}  // namespace scaling

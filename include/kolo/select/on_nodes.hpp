// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The automatic choice for ranks on several nodes: adds two-level algorithms to the flat ones, and predicts messages
// within a node and between nodes separately.
#pragma once

#include <kolo/schedule/family.hpp>
#include <kolo/schedule/two_level/parts.hpp>
#include <kolo/schedule/two_level/vector.hpp>
#include <kolo/select/candidates.hpp>
#include <kolo/select/default_tuning.hpp>
#include <kolo/select/nodes_in_order.hpp>
#include <kolo/transport/abilities.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::select {

/// A transport with shared memory within a node and messages between nodes. `nodes()` returns the node number of each
/// rank, the same on all ranks.
template <class T>
concept OnNodes = SharedMemoryTransport<T> && MessageTransport<T> && NodeAware<const T>;

/// The workload of a schedule within nodes, [0], and between nodes, [1]. Hops are those of the chain with the most hops
/// between nodes.
template <class Used = void>
[[gnu::cold, gnu::noinline]] std::array<workload, 2> workloads_on(std::span<const int> nodes,
                                                                  const execute::schedule_ref& s, kind k,
                                                                  std::size_t bytes) {
  const int size = int(nodes.size());
  const auto is_far = [&](int a, int b) { return nodes[std::size_t(a)] != nodes[std::size_t(b)] ? 1u : 0u; };
  std::array<workload, 2> most{};
  count_work<2>(most.data(), s, k, size, bytes, std::min(size, most_ranks_tried), is_far);
  constexpr int far_hop = 1 << 16;
  const bool is_small = size <= 256;
  const int chain = is_small ? longest_chain(s, size, [&](int a, int b) { return is_far(a, b) ? far_hop : 1; }) : 0;
  most[0].hops = is_small ? chain % far_hop : most[0].rounds;
  most[1].hops = is_small ? chain / far_hop : most[1].rounds;
  return most;
}

/// The nodes of a communicator's ranks.
struct node_choice {
  std::vector<int> nodes;
  int most_local_ranks = 1;                    ///< ranks of the largest node
  std::span<const candidate> candidates[3]{};  ///< allreduce, reduce_scatter, allgather; empty: not in node order
  bool is_fitted = false;                      ///< `seconds` predicts two_level only, all links together
  double (*seconds)(const node_choice&, const execute::schedule_ref&, kind, std::size_t bytes,
                    const tuning& far) = nullptr;  ///< a pointer, so that a program without nodes does not link it

  node_choice(const node_choice&) = delete;
  node_choice& operator=(const node_choice&) = delete;

  bool predicts(const candidate& c) const { return c.placed.at || !is_fitted; }
  /// Empty if two_level is no candidate.
  template <kind K>
  std::span<const candidate> candidates_of() const {
    constexpr int index = K == kind::allreduce ? 0 : K == kind::reduce_scatter ? 1 : K == kind::allgather ? 2 : -1;
    if constexpr (index >= 0) return candidates[index];
    else return {};
  }

 protected:
  explicit node_choice(const std::vector<int>& of) : nodes{of} {}
};

/// A node_choice and its two_level schedules. `Used`: only programs with nodes instantiate them.
template <class Used = void>
struct node_schedules final : node_choice {
  template <kind K>
  using two = decltype(schedule_of<K>(two_level<>{}));

  std::array<two<kind::allreduce>, 2> allreduce{};
  std::array<two<kind::reduce_scatter>, 2> reduce_scatter{};
  std::array<two<kind::allgather>, 2> allgather{};
  std::vector<candidate> of_kind[3]{};
  tuning measured{};

  explicit node_schedules(const std::vector<int>& of) : node_choice{of} {
    seconds = &predict;
    for (const int n : nodes)
      most_local_ranks = std::max(most_local_ranks, int(std::count(nodes.begin(), nodes.end(), n)));
    topology found;
    if (!nodes_in_order(nodes, found).empty()) return;
    fill(found, []<kind K>() { return std::span<const candidate>{candidates_for<K, false>}; });
  }
  /// For a fit. `beside`: returns the other candidates of a collective.
  node_schedules(const topology& on, int size, const tuning& of_two_level, auto&& beside)
      : node_choice{std::vector<int>(std::size_t(size))}, measured{of_two_level} {
    seconds = &as_measured;
    is_fitted = true;
    fill(on, beside);
  }

 private:
  static double as_measured(const node_choice& on, const execute::schedule_ref& s, kind k, std::size_t bytes,
                            const tuning&) {
    const int size = int(on.nodes.size());
    return static_cast<const node_schedules&>(on).measured.seconds(size, pattern::rounds, bytes,
                                                                   workload_of(s, k, size, bytes, false));
  }
  static double predict(const node_choice& on, const execute::schedule_ref& s, kind k, std::size_t bytes,
                        const tuning& far) {
    const auto l = workloads_on<Used>(on.nodes, s, k, bytes);
    return default_tuning::shared_memory.seconds(on.most_local_ranks, pattern::rounds, bytes, l[0]) +
           far.seconds(int(on.nodes.size()), pattern::rounds, bytes, l[1]);
  }
  void fill(const topology& found, auto&& beside) {
    fill_kind<kind::allreduce>(0, allreduce, found, beside);
    fill_kind<kind::reduce_scatter>(1, reduce_scatter, found, beside);
    fill_kind<kind::allgather>(2, allgather, found, beside);
  }
  template <kind K>
  void fill_kind(int index, std::array<two<K>, 2>& schedules, const topology& found, auto&& beside) {
    auto& all = of_kind[index];
    const std::span<const candidate> others = beside.template operator()<K>();
    all.assign(others.begin(), others.end());
    for (const int lanes : {0, 1}) {
      auto& s = schedules[std::size_t(lanes)] = schedule_of<K>(two_level<>{.nodes = found, .lanes = lanes});
      const execute::schedule_ref ref = execute::erase_schedule(s, int(nodes.size()));
      all.insert(all.end() - (all.back().is_native ? 1 : 0), {.name = lanes == 0 ? "two_level" : "two_level on 1 lane",
                                                              .placed = ref,
                                                              .is_ordered = is_ordered<two<K>>()});
    }
    candidates[index] = all;
  }
};

/// Returns null if all ranks share one kind of link.
template <class Engine>
[[gnu::cold, gnu::noinline]] const node_choice* nodes_under([[maybe_unused]] const Engine& e) {
  if constexpr (OnNodes<std::remove_cvref_t<decltype(e.transport)>>) {
    if (e.transport.has_slots()) return nullptr;
    auto& mine = e.resolved.by_nodes;
    if (!mine) mine = std::make_shared<const node_schedules<>>(e.transport.nodes());
    return mine.get();
  } else {
    return nullptr;
  }
}

}  // namespace kolo::inline KOLO_ABI::detail::select

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A measurement of the benchmark, and the workload counted from its schedule.
#pragma once

#include "../algorithms.hpp"

#include <kolo/select/workload.hpp>
#include <kolo/simulate/run.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace kolo_bench {

struct observation {
  kolo::kind collective;
  std::string algorithm;
  int ranks;
  std::size_t bytes;  ///< of the vector, of all parts together
  double seconds;
  kolo::pattern runs_as;  ///< `unknown`: the row is of kolo::automatic
  kolo::workload work;
  std::function<double(const kolo::simulate::network&)> simulate{};
  bool over_mpi = false;  ///< then no schedule runs as a stream, and MPI's own collectives (`native`) are rows as well
  bool fills_blocks =
      true;  ///< each block has an element; otherwise most rounds are empty, and the row is not used for a fit
};

namespace detail {

/// Calls see(std::integral_constant<kind, K>, name, algorithm) for every line of algorithms.hpp.
template <class F>
void for_each_entry(F see) {
  using enum kolo::kind;
  const auto in = [&]<kolo::kind K>(std::integral_constant<kolo::kind, K> k, const auto& list) {
    std::apply([&](const auto&... e) { (see(k, e.name, e.algorithm), ...); }, list);
  };
  in(std::integral_constant<kolo::kind, allreduce>{}, allreduce_algorithms);
  in(std::integral_constant<kolo::kind, broadcast>{}, broadcast_algorithms);
  in(std::integral_constant<kolo::kind, allgather>{}, allgather_algorithms);
  in(std::integral_constant<kolo::kind, reduce_scatter>{}, reduce_scatter_algorithms);
  in(std::integral_constant<kolo::kind, reduce>{}, reduce_algorithms);
  in(std::integral_constant<kolo::kind, gather>{}, gather_algorithms);
  in(std::integral_constant<kolo::kind, scatter>{}, scatter_algorithms);
  in(std::integral_constant<kolo::kind, alltoall>{}, alltoall_algorithms);
  in(std::integral_constant<kolo::kind, scan>{}, scan_algorithms);
  in(std::integral_constant<kolo::kind, exclusive_scan>{}, scan_algorithms);
  in(std::integral_constant<kolo::kind, barrier>{}, barrier_algorithms);
}

/// Counts the workload of the algorithm's schedule; that of kolo::automatic is unknown.
template <kolo::kind K, class A>
void count(const A& algorithm, observation& o) {
  if constexpr (kolo::AlgorithmFor<A, K>) {
    auto s = kolo::schedule_of<K>(algorithm);
    const auto erased = kolo::detail::execute::erase_schedule(s, o.ranks);
    o.runs_as = o.over_mpi ? kolo::pattern::rounds : kolo::detail::execute::classify(erased, K, o.ranks);
    o.simulate = [s, p = o.ranks, n = o.bytes](const kolo::simulate::network& net) {
      return kolo::simulate::run(s, p, n, net);
    };
    o.fills_blocks = o.bytes / sizeof(float) >= static_cast<std::size_t>(erased.blocks) || K == kolo::kind::barrier;
    o.work = kolo::detail::select::workload_of(erased, K, o.ranks, o.bytes, kolo::is_relative<decltype(s)>(),
                                               !o.over_mpi && kolo::detail::execute::uses_board(K, o.runs_as, o.ranks));
  }
}

inline std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in{text};
  for (std::string part; std::getline(in, part, '/');) parts.push_back(part);
  return parts;
}
}  // namespace detail

/// True for a row of `implementation` with floats in ordinary memory; with two ranks in mode touched, else back to back.
inline bool is_usable(const std::vector<std::string>& name, const std::string& implementation,
                      const std::string& distance) {
  if (name.size() < 10 || name[2] != implementation || name[5] != "float" || !name[9].starts_with(distance))
    return false;
  return (!implementation.starts_with("kolo") || name[7] == "ordinary") &&
         name[8] == (name[4] == "2" ? "touched" : "back_to_back");
}

/// The harness's rows with the cores near, or far. `implementation`: kolo; kolo_mpich or kolo_openmpi; or floor, the hand-written sum.
inline std::vector<observation> read_observations(const std::string& file, const std::string& distance,
                                                  const std::string& implementation = "kolo") {
  std::ifstream in{file};
  if (!in) throw std::runtime_error{file + " cannot be read"};
  std::vector<observation> all;
  const auto run = nlohmann::json::parse(in);
  for (const auto& row : run.at("benchmarks")) {
    const auto name = detail::split(
        row.at("name"));  // collective/algorithm/implementation/bytes/ranks/element/place/buffers/mode/distance/...
    if (!is_usable(name, implementation, distance)) continue;
    observation o{{},
                  name[1],
                  std::stoi(name[4]),
                  std::stoull(name[3]),
                  row.at("p50").get<double>() * 1e-9,
                  kolo::pattern::unknown,
                  {}};
    o.over_mpi = implementation.ends_with("mpich") || implementation.ends_with("openmpi");
    const bool of_a_part = name[0] == "allgather" || name[0] == "gather" || name[0] == "scatter";
    if (of_a_part) o.bytes *= static_cast<std::size_t>(o.ranks);
    if (name[0] == "barrier") o.bytes = 1;
    detail::for_each_entry(
        [&]<kolo::kind K>(std::integral_constant<kolo::kind, K>, const char* algorithm, const auto& a) {
          if (name[0] != kolo::name(K)) return;
          o.collective = K;
          if (o.algorithm == algorithm) detail::count<K>(a, o);
        });
    all.push_back(o);
  }
  return all;
}

}  // namespace kolo_bench

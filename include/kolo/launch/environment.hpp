// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The launcher's environment variables: the number of this rank, the number of ranks, and their hosts.
#pragma once

#include <kolo/core/error.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kolo::inline KOLO_ABI {

/// Without a launcher: rank 0 of 1.
struct launched {
  int rank = 0;               ///< among all
  int size = 1;               ///< of all ranks
  int local_rank = 0;         ///< among the ranks on this host; rank, if not announced
  int local_size = 1;         ///< ranks on this host; size, if not announced
  int node_rank = 0;          ///< of the host
  int node_count = 1;         ///< hosts; if not announced: as if every host but the last held local_size ranks
  std::string launcher;       ///< "mpich", "open-mpi", "srun", "torchrun", "kolo"; empty: none
  std::string rank_variable;  ///< the variable that announced the rank
};

namespace detail::launch {

/// The names of a launcher's variables. Null: it has none.
struct vocabulary {
  const char *launcher, *rank, *size, *local_rank, *local_size, *node_rank, *node_count;
};
inline constexpr vocabulary kolo_words{
    "kolo", "KOLO_RANK", "KOLO_SIZE", "KOLO_LOCAL_RANK", "KOLO_LOCAL_SIZE", "KOLO_NODE_RANK", "KOLO_NODE_COUNT"};
inline constexpr vocabulary torchrun_words{"torchrun",         "RANK",       "WORLD_SIZE",      "LOCAL_RANK",
                                           "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"};
inline constexpr vocabulary open_mpi_words{"open-mpi",
                                           "OMPI_COMM_WORLD_RANK",
                                           "OMPI_COMM_WORLD_SIZE",
                                           "OMPI_COMM_WORLD_LOCAL_RANK",
                                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                                           nullptr,
                                           nullptr};
inline constexpr vocabulary mpich_words{"mpich",           "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                                        "MPI_LOCALNRANKS", nullptr,    nullptr};

[[noreturn]] inline void refuse_environment(const std::string& sentence) {
  throw error{errc::invalid_argument, sentence};
}

inline std::string quoted(std::string_view name, std::string_view value) {
  return std::string{name} + " is \"" + std::string{value.substr(0, 60)} + '"';
}

/// Reads and checks the environment. `Lookup` is called with a name and returns a C string or null.
template <class Lookup>
class environment {
 public:
  explicit environment(const Lookup& lookup) : lookup_{lookup} {}

  bool has(const char* name) const { return name != nullptr && lookup_(name) != nullptr; }
  std::string_view text(const char* name) const { return has(name) ? lookup_(name) : std::string_view{}; }

  std::optional<int> number(const char* name, int least) const {
    if (!has(name)) return std::nullopt;
    const std::string_view t = text(name);
    int value = 0;
    const auto [end, failed] = std::from_chars(t.data(), t.data() + t.size(), value);
    if (failed != std::errc{} || end != t.data() + t.size() || value < least)
      refuse_environment(quoted(name, t) + ", and should be a whole number from " + std::to_string(least) + " on");
    return value;
  }

  /// A number and its upper bound: both or none.
  bool index(const char* name, const char* count_name, int& value, int& count) const {
    const auto v = number(name, 0), n = number(count_name, 1);
    if (!v && !n) return false;
    if (!n) refuse_environment(quoted(name, text(name)) + ", but " + count_name + " is not set");
    if (!v) refuse_environment(quoted(count_name, text(count_name)) + ", but " + name + " is not set");
    if (*v >= *n)
      refuse_environment(quoted(name, text(name)) + " and " + quoted(count_name, text(count_name)) +
                         ": the first should be less than the second");
    value = *v;
    count = *n;
    return true;
  }

  bool announces(const vocabulary& w) const { return has(w.rank) || has(w.size); }

 private:
  const Lookup& lookup_;
};

/// The element of "2(x3),1" that belongs to a node: here 2, 2, 2, 1. Empty if it is not such a list or is too short.
template <class Used = void>
std::optional<int> tasks_on_node(std::string_view list, int node) {
  const auto take = [&list](int& value) {
    const auto [end, failed] = std::from_chars(list.data(), list.data() + list.size(), value);
    list.remove_prefix(std::size_t(end - list.data()));
    return failed == std::errc{} && value > 0;
  };
  for (int tasks = 0, nodes = 0; take(tasks); list.remove_prefix(1)) {
    nodes = 1;
    if (list.starts_with("(x")) {
      list.remove_prefix(2);
      if (!take(nodes) || !list.starts_with(')')) return std::nullopt;
      list.remove_prefix(1);
    }
    if (!list.empty() && list.front() != ',') return std::nullopt;
    if (node < nodes) return tasks;
    node -= nodes;
    if (list.empty()) return std::nullopt;
  }
  return std::nullopt;
}

/// Fills in the missing numbers, and checks that all are consistent.
inline launched completed(launched l, bool has_local, bool has_node) {
  if (!has_local) {
    l.local_rank = has_node && l.node_count > 1 ? 0 : l.rank;
    l.local_size = has_node && l.node_count > 1 ? 1 : l.size;
  }
  if (!has_node) {
    l.node_rank = l.rank / l.local_size;
    l.node_count = (l.size - 1) / l.local_size + 1;  // does not overflow
  }
  const auto say = [](int a, const char* of, int b) { return std::to_string(a) + of + std::to_string(b); };
  if (l.local_size > l.size || l.local_rank > l.rank || l.node_count > l.size)
    refuse_environment(l.launcher + " announced rank " + say(l.rank, " of ", l.size) + ", local rank " +
                       say(l.local_rank, " of ", l.local_size) + ", node " + say(l.node_rank, " of ", l.node_count) +
                       ", which do not fit together");
  return l;
}

template <class Lookup>
launched read_environment(const environment<Lookup>& env, const vocabulary& w) {
  launched l;
  l.launcher = w.launcher;
  l.rank_variable = w.rank;
  env.index(w.rank, w.size, l.rank, l.size);
  const bool local = env.index(w.local_rank, w.local_size, l.local_rank, l.local_size);
  const bool has_count = env.has(w.node_count);
  const bool node = has_count && env.index(w.node_rank, w.node_count, l.node_rank, l.node_count);
  l = completed(std::move(l), local, node);
  if (const auto alone = env.number(w.node_rank, 0); alone && !has_count) {
    if (!local)
      refuse_environment(quoted(w.node_rank, env.text(w.node_rank)) + ", but neither " + w.node_count + " nor " +
                         w.local_rank + " is set");
    if (*alone >= l.size)
      refuse_environment(quoted(w.node_rank, env.text(w.node_rank)) + ", but the number of ranks is " +
                         std::to_string(l.size));
    l.node_rank = *alone;
    l.node_count = std::max(l.node_count, *alone + 1);
    l = completed(std::move(l), true, true);
  }
  return l;
}

/// Whether this is a task of a Slurm step. A batch script has SLURM_PROCID as well, but runs in a job and in no step.
template <class Lookup>
bool is_slurm_task(const environment<Lookup>& env) {
  const bool step = env.has("SLURM_STEP_ID") || env.has("SLURM_STEPID");
  return env.has("SLURM_PROCID") && (step || !(env.has("SLURM_JOB_ID") || env.has("SLURM_JOBID")));
}

/// The variables of the step precede those of the job around it.
template <class Lookup>
launched read_slurm(const environment<Lookup>& env) {
  const auto step_or_job = [&](const char* step, const char* job) { return env.has(step) ? step : job; };
  const char* const sizes = step_or_job("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
  const char* const nodes = step_or_job("SLURM_STEP_NUM_NODES", "SLURM_NNODES");
  const char* const lists = step_or_job("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
  launched l;
  l.launcher = "srun";
  l.rank_variable = "SLURM_PROCID";
  env.index("SLURM_PROCID", sizes, l.rank, l.size);
  const bool has_node = env.index("SLURM_NODEID", nodes, l.node_rank, l.node_count);
  const auto local = env.number("SLURM_LOCALID", 0);
  if (!local) return completed(l, false, has_node);
  l.local_rank = *local;
  l.local_size = l.size;
  if (has_node && l.node_count > 1) {
    if (!env.has(lists)) refuse_environment(quoted(nodes, env.text(nodes)) + ", but SLURM_TASKS_PER_NODE is not set");
    const auto tasks = tasks_on_node(env.text(lists), l.node_rank);
    if (!tasks)
      refuse_environment(quoted(lists, env.text(lists)) + ", which says nothing about node " +
                         std::to_string(l.node_rank));
    l.local_size = *tasks;
  }
  if (l.local_rank >= l.local_size)
    refuse_environment(quoted("SLURM_LOCALID", env.text("SLURM_LOCALID")) + ", but " + std::to_string(l.local_size) +
                       " tasks run on its node");
  return completed(l, true, has_node);
}

template <class Lookup>
launched read_first_announced(const environment<Lookup>& env) {
  const bool slurm = is_slurm_task(env);
  if (env.announces(kolo_words)) return read_environment(env, kolo_words);
  if (env.has("TORCHELASTIC_RUN_ID")) return read_environment(env, torchrun_words);
  if (env.announces(open_mpi_words)) return read_environment(env, open_mpi_words);
  if (env.announces(mpich_words) && (!slurm || env.has("MPI_LOCALRANKID")))  // srun sets PMI's, too
    return read_environment(env, mpich_words);
  if (env.has("RANK") && env.has("WORLD_SIZE")) return read_environment(env, torchrun_words);
  if (slurm) return read_slurm(env);
  if (env.announces(torchrun_words)) return read_environment(env, torchrun_words);
  return {};
}

}  // namespace detail::launch

/// Reads the variables that `lookup(name)` knows (a C string or null). KOLO_RANK and KOLO_SIZE come first; then, if
/// several launchers have set their variables, torchrun's agent, Open MPI, MPICH, RANK and WORLD_SIZE, srun. Incomplete
/// variables and values that are not numbers are rejected: `errc::invalid_argument`, naming the variable and its value.
template <class Lookup>
launched from_environment(const Lookup& lookup) {
  return detail::launch::read_first_announced(detail::launch::environment<Lookup>{lookup});
}

template <class Used = void>  // only programs that read it instantiate what does
launched from_environment() {
  return from_environment([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processes of the ranks on this host: MPI seldom reports that one has died, but the system does.
#pragma once

#include <kolo/mpi/handles.hpp>
#include <kolo/os/cores.hpp>
#include <kolo/os/process.hpp>
#include <kolo/transport/node_map.hpp>

#include <chrono>
#include <optional>

namespace kolo::inline KOLO_ABI::detail::mpi {

class local_liveness {
 public:
  using clock = std::chrono::steady_clock;

  local_liveness() = default;

  /// Collective. Looks after those ranks that this process can see: same host (`hosts` as of `hosts_of`), same table of
  /// processes.
  local_liveness(const handle& all, const transport::node_map& hosts, int rank) {
    struct where {
      os::process_id process{};
      std::uint64_t table = 0;
    };
    const where mine{os::this_process(), os::namespace_number("/proc/self/ns/pid")};
    std::vector<where> of_ranks(std::size_t(hosts.size()));
    check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, of_ranks.data(), sizeof mine, MPI_BYTE, all.get()),
          "MPI_Allgather", rank);
    for (int r = 0; r < hosts.size(); ++r) {
      const auto& its = of_ranks[std::size_t(r)];
      const bool is_near = hosts.of(r) == hosts.of(rank) && its.table == mine.table && mine.table != 0;
      processes_.push_back(is_near && r != rank ? its.process : os::process_id{});
    }
    os::core_set cores;
    const int ranks = hosts.placement_of(rank).local_size;
    int told = cores.add(0) ? 1 : 0;
    for (const auto& its : processes_) told += its.pid != 0 && cores.add(its.pid) ? 1 : 0;
    is_oversubscribed_ = (told == ranks ? cores.count() : os::usable_cores()) < ranks;
  }

  local_liveness among(const std::vector<int>& members) const {
    local_liveness some;
    some.is_oversubscribed_ = is_oversubscribed_;
    for (const int member : members) some.processes_.push_back(processes_[std::size_t(member)]);
    return some;
  }

  bool is_oversubscribed() const { return is_oversubscribed_; }  ///< more ranks on this host than it has cores

  /// A rank whose process is stopped, if this one can see any.
  std::optional<int> stopped() const {
    for (std::size_t r = 0; r < processes_.size(); ++r)
      if (processes_[r].pid != 0 && os::is_stopped(processes_[r])) return int(r);
    return std::nullopt;
  }

  /// A rank that has died. It may have done its part before, so it is reported some time after it was first seen.
  std::optional<int> dead(clock::time_point now) {
    if (now - polled_ < pause) return std::nullopt;
    polled_ = now;
    if (suspect_) return suspect_;
    for (std::size_t r = 0; r < processes_.size() && !suspect_; ++r)
      if (processes_[r].pid != 0 && !os::is_alive(processes_[r])) suspect_ = int(r);
    return std::nullopt;
  }

 private:
  static constexpr std::chrono::milliseconds pause{50};

  bool is_oversubscribed_ = false;
  std::vector<os::process_id> processes_;  ///< of each rank; pid 0: nothing is known of it
  clock::time_point polled_{};
  std::optional<int> suspect_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::mpi

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The number of cores that some processes may use, the cache size of a core, and which cores share a cache or memory.
#pragma once

#include <kolo/core/copy.hpp>
#include <kolo/core/text.hpp>

#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace kolo::inline KOLO_ABI::detail::os {

/// The number of cores that the ranks of this host can share, as far as one rank can tell before it knows the others. A
/// rank that is bound to one core is assumed to have been bound by a launcher that gave the others their own.
inline int usable_cores() {
  cpu_set_t set;
  const int mine = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return mine > 1 ? mine : std::max(1, int(::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// The set of cores that some processes may use, all together.
class core_set {
 public:
  core_set() { CPU_ZERO(&cores_); }
  /// Adds that process's cores. Returns whether the system reports them.
  bool add(std::int32_t process) {
    cpu_set_t its;
    if (::sched_getaffinity(process, sizeof its, &its) != 0) return false;
    CPU_OR(&cores_, &cores_, &its);
    return true;
  }
  int count() const { return CPU_COUNT(&cores_); }

 private:
  cpu_set_t cores_;
};

/// The size of the cache that a core has to itself (L2); 1 MiB if the system does not report it.
inline std::size_t core_cache_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  if (const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0) return std::size_t(bytes);
#endif
  return std::size_t{1} << 20;
}

/// Parses "0-3,8-11", as Linux writes a set of cores.
[[gnu::cold, gnu::noinline]] inline cpu_set_t cores_of_list(const std::string& list) {
  cpu_set_t found;
  CPU_ZERO(&found);
  for (const char* at = list.c_str(); *at >= '0' && *at <= '9'; at += *at == ',') {
    char* end;
    const long first = std::strtol(at, &end, 10), last = *end == '-' ? std::strtol(end + 1, &end, 10) : first;
    for (long core = first; core <= last && core < CPU_SETSIZE; ++core) CPU_SET(std::size_t(core), &found);
    at = end;
  }
  return found;
}

/// The lowest core of those that share with all of `mine` a NUMA node (`numa`), else the last level of cache, as sysfs
/// under `system` reports them. -1: all of `mine` share none, or it is not known.
[[gnu::cold, gnu::noinline]] inline int lowest_core_sharing(const cpu_set_t& mine, bool numa,
                                                            const std::string& system = "/sys/devices/system") {
  const auto text_of = [](const std::string& path) {
    char text[4096];
    core::read_text(path.c_str(), text);
    return std::string(text);
  };
  const auto lowest = [](const cpu_set_t& cores) {
    std::size_t core = 0;
    while (core < CPU_SETSIZE && !CPU_ISSET(core, &cores)) ++core;
    return core;
  };
  const std::size_t first = lowest(mine);
  cpu_set_t sharing, common;
  CPU_ZERO(&sharing);
  int level = 0;
  for (int i = 0; i < (numa ? 256 : 16); ++i) {
    const auto here = numa ? core::text_of({system, "/node/node", i, "/"})
                           : core::text_of({system, "/cpu/cpu", first, "/cache/index", i, "/"});
    const auto cores = cores_of_list(text_of(here + (numa ? "cpulist" : "shared_cpu_list")));
    const int its = numa ? 1 : std::atoi(text_of(here + "level").c_str());
    if (its > level && first < CPU_SETSIZE && CPU_ISSET(first, &cores)) sharing = cores, level = its;
  }
  CPU_AND(&common, &mine, &sharing);
  return level > 0 && CPU_EQUAL(&common, &mine) ? int(lowest(sharing)) : -1;
}

}  // namespace kolo::inline KOLO_ABI::detail::os

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The number of cores that some processes may use, and the cache size of a core.
#pragma once

#include <kolo/config.hpp>

#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>

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

}  // namespace kolo::inline KOLO_ABI::detail::os

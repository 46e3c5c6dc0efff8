// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cores: how many there are for some processes, and the cache of one.
#pragma once

#include <kolo/config.hpp>

#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::os {

/// Cores that the ranks of this host can share, as far as one of them can tell before it knows the others. A rank that
/// is bound to one core is taken to have been bound by a launcher that gave the others cores of their own.
inline int usable_cores() {
  cpu_set_t set;
  const int mine = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return mine > 1 ? mine : std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// Cores that some processes may use, all together.
class core_set {
 public:
  core_set() { CPU_ZERO(&cores_); }
  /// Does the system say which ones that process may use?
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

/// Of the cache that a core has to itself (L2); 1 MiB where the system does not say.
inline std::size_t core_cache_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  if (const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0) return static_cast<std::size_t>(bytes);
#endif
  return std::size_t{1} << 20;
}

}  // namespace kolo::inline KOLO_ABI::detail::os

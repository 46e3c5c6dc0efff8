// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A clock in ticks that all cores of a host share, and the list of cores.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <vector>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace kolo_bench {

#if defined(__x86_64__)
/// Reads the counter after all earlier instructions, and before all later ones.
inline std::int64_t ticks() {
  unsigned core;
  const auto t = __rdtscp(&core);
  _mm_lfence();
  return static_cast<std::int64_t>(t);
}
inline void pause_briefly() { _mm_pause(); }
#else
inline std::int64_t ticks() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
inline void pause_briefly() {}
#endif

/// Measured once, over 20 ms.
inline double ticks_per_nanosecond() {
  static const double rate = [] {
    using clock = std::chrono::steady_clock;
    const auto t0 = clock::now();
    const auto c0 = ticks();
    auto t1 = t0;
    while (t1 - t0 < std::chrono::milliseconds{20}) t1 = clock::now();
    return static_cast<double>(ticks() - c0) / std::chrono::duration<double, std::nano>(t1 - t0).count();
  }();
  return rate;
}

/// The cores that this process may use.
inline std::vector<int> cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> all;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) all.push_back(c);
  if (all.empty()) all.push_back(0);
  return all;
}

/// Binds the calling thread to one core.
inline void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace kolo_bench

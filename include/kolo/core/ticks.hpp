// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processor's counter.
#pragma once

#include <kolo/config.hpp>

#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::core {

/// Costs a few nanoseconds, and does not wait for instructions in flight; 0 if the processor has no such counter.
inline std::uint64_t ticks() {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

}  // namespace kolo::inline KOLO_ABI::detail::core

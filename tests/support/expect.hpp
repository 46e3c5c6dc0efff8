// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The expectations of programs without Catch2, on any thread.
#pragma once

#include <atomic>
#include <cstdio>

namespace testing {

inline std::atomic<bool> good{true};  ///< all expectations have been met

inline void expect(bool condition, const char* what = nullptr) {
  if (condition) return;
  good = false;
  if (what) std::printf("failed: %s\n", what);
}

}  // namespace testing

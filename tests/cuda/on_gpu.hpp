// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Common parts of the programs for a real GPU: test results, timing, and the exit without a GPU.
#pragma once

#include <kolo/cuda/runtime.hpp>

#include "cuda/meeting_point.hpp"

#include <chrono>
#include <cstdio>
#include <string>

namespace testing {

/// The number of devices, read in a process of its own: CUDA does not survive fork.
inline int devices_here() {
  return std::stoi(child{[] { return std::to_string(kolo::cuda::devices()); }}.result());
}
/// The exit status of a program without a GPU.
inline int no_gpu() {
  std::puts("not run: there is no GPU, or no driver for it");
  return 77;
}

/// Prints the result; returns 1 if something is wrong.
inline int verdict(const std::string& name, const std::string& wrong) {
  std::printf("%-6s %s\n%s", wrong.empty() ? "passed" : "FAILED", name.c_str(), wrong.c_str());
  std::fflush(stdout);
  return wrong.empty() ? 0 : 1;
}

/// The time of one call when all are enqueued before the wait.
template <class F>
double seconds_of(int times, const kolo::cuda::stream& s, F call) {
  for (int k = 0; k < 3; ++k) call();
  s.wait();
  const auto begin = std::chrono::steady_clock::now();
  for (int k = 0; k < times; ++k) call();
  s.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}

}  // namespace testing

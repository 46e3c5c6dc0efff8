// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What programs on a real GPU have in common: what they say of a check, how they time, and that there is no GPU.
#pragma once

#include <kolo/cuda/runtime.hpp>

#include "cuda/meeting_point.hpp"

#include <chrono>
#include <cstdio>
#include <string>

namespace testing {

/// Devices, asked for in a process of its own: CUDA does not survive a fork.
inline int devices_here() {
  return std::stoi(child{[] { return std::to_string(kolo::cuda::devices()); }}.result());
}
/// The status of a program that has nothing to run on.
inline int no_gpu() {
  std::puts("not run: there is no GPU here, or no driver for it");
  return 77;
}

/// Says it; 1 where something is wrong.
inline int verdict(const std::string& name, const std::string& wrong) {
  std::printf("%-6s %s\n%s", wrong.empty() ? "passed" : "FAILED", name.c_str(), wrong.c_str());
  std::fflush(stdout);
  return wrong.empty() ? 0 : 1;
}

/// Of a call behind another, when all have been asked for.
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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Says to which part of a step the time went.
#pragma once

#include <chrono>

namespace digits {

class stopwatch {
 public:
  /// Adds the seconds since the last call to `part`.
  void lap(double& part) {
    const auto now = std::chrono::steady_clock::now();
    part += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace digits

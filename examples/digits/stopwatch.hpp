// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Says to which part of a step the time went, by the clock that the rank has.
#pragma once

#include <chrono>

namespace digits {

/// A rank with a clock of its own lives in virtual time.
template <class Comm>
concept Simulated = requires(const Comm& comm, double seconds) {
  comm.transport().now(), comm.transport().compute(seconds);
};

/// Seconds, from any moment on.
template <class Comm>
double now(const Comm& comm) {
  if constexpr (Simulated<Comm>) return comm.transport().now();
  else return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What has been computed takes time by itself, or as long as is said where time is virtual.
template <class Comm>
void charge(const Comm& comm, double seconds) {
  if constexpr (Simulated<Comm>) comm.transport().compute(seconds);
}

template <class Comm>
class stopwatch {
 public:
  explicit stopwatch(const Comm& comm) : comm_{comm} {}

  /// Adds the seconds since the last call to `part`.
  void lap(double& part) {
    const double time = now(comm_);
    part += time - last_;
    last_ = time;
  }

 private:
  const Comm& comm_;
  double last_ = now(comm_);
};

}  // namespace digits

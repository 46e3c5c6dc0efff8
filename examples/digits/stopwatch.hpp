// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures the parts of a step by the rank's clock, real or virtual.
#pragma once

#include <chrono>

namespace digits {

/// A communicator of simulated ranks, whose transport has a virtual clock.
template <class Comm>
concept Simulated = requires(const Comm& comm, double seconds) {
  comm.transport().now(), comm.transport().compute(seconds);
};

/// Seconds since an arbitrary moment.
template <class Comm>
double now(const Comm& comm) {
  if constexpr (Simulated<Comm>) return comm.transport().now();
  else return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Advances the virtual clock by the seconds of a computation; no effect in real time.
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

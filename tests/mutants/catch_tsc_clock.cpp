// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the clock from a counter: it must give the time, read the system clock rarely, and not use a counter that is no clock.
#include <kolo/os/tsc_clock.hpp>

#include <cstdint>
#include <cstdlib>
#include <utility>

namespace {

/// A counter of three counts per nanosecond, which the test advances.
template <bool Usable>
struct simulated {
  static inline std::uint64_t counts = 1'000'000, pause = 0;
  static inline int asked = 0;

  static std::int64_t true_time() { return static_cast<std::int64_t>(counts / 3); }
  static std::uint64_t count() {
    return Usable ? counts += 20 : counts >> 21 & 1 ? 9 * counts : counts;
  }  // not a clock: it jumps back and forth
  static std::int64_t time() {
    ++asked;
    const auto t = true_time();
    counts += 60 + std::exchange(pause, 0);
    return t;
  }
  static bool is_a_clock() { return Usable; }
};

bool good = true;

/// Reads the clock `times` times, after `counts` counts each; returns how often it read the system clock.
template <class Counter>
int read(kolo::detail::os::clock_from<Counter>& clock, int times, std::uint64_t counts) {
  const int before = Counter::asked;
  for (int i = 0; i < times; ++i) {
    Counter::counts += counts;
    if (std::abs(clock.now() - Counter::true_time()) > 100) good = false;
  }
  return Counter::asked - before;
}

}  // namespace

int main() {
  using host = simulated<true>;
  kolo::detail::os::clock_from<host> clock;
  read(clock, 1, 0);
  host::pause = 10'000'000;  // the thread is descheduled during the second reading of the system clock
  host::counts += 20'000;
  clock.now();
  if (read(clock, 100'000, 300) > 100) good = false;
  if (read(clock, 100, 1'000'000'000) < 30) good = false;  // the system clock is read at least every second
  if (read(clock, 3, 40'000'000'000) != 3) good = false;

  using other = simulated<false>;
  kolo::detail::os::clock_from<other> careful;
  if (read(careful, 1000, 100'000) != 1000) good = false;
  return good ? 0 : 1;
}

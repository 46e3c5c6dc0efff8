// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CLOCK_MONOTONIC for frequent reads: the processor's counter, calibrated by the clock itself from time to time.
#pragma once

#include <kolo/core/ticks.hpp>
#include <kolo/os/descriptor.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace kolo::inline KOLO_ABI::detail::os {

/// The processor's counter, and the clock that calibrates it.
struct processor_counter {
  static std::uint64_t count() { return core::ticks(); }
  static std::int64_t time() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  /// The kernel checks that the counters of all cores agree, and run at one rate.
  static bool is_a_clock() {
#if defined(__x86_64__)
    const descriptor file{
        ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC)};
    char text[4]{};
    return file.get() >= 0 && ::read(file.get(), text, sizeof text) == 4 && std::memcmp(text, "tsc\n", 4) == 0;
#else
    return false;
#endif
  }
};

/// Nanoseconds of CLOCK_MONOTONIC, accurate to a few hundred; may go back by as much. The clock itself is read at
/// first, then every few microseconds, and eventually every second, so errors do not grow; and always if the kernel
/// does not use the counter as its clock.
/// Cost  of a read: that of the counter, which does not wait for instructions in flight; less than half of reading the
///       clock.
template <class Counter>
class clock_from {
 public:
  std::int64_t now() {
    const std::uint64_t since = Counter::count() - counted_;
    if (since < trusted_) [[likely]]
      return set_to_ + std::int64_t((since * rate_) >> 32);
    return set();
  }

 private:
  static constexpr std::uint64_t first = std::uint64_t{1} << 14,
                                 longest = std::uint64_t{1} << 31;  // times a rate below 2^33: no more than 64 bits
  static constexpr std::uint64_t at_once = 1 << 11;                 // not interrupted

  /// Trusts a rate for twice the interval over which it was measured.
  [[gnu::cold, gnu::noinline]] std::int64_t set() {
    static const bool usable = Counter::is_a_clock();
    const auto before = Counter::count();
    const auto time = Counter::time();
    const auto count = Counter::count(), measured = count - counted_;
    if (!usable || count - before > at_once || (counted_ != 0 && measured < first)) return time;
    if (counted_ != 0) {
      rate_ = std::uint64_t(double(time - set_to_) / double(measured) * 4294967296.0);
      trusted_ = rate_ >> 33 == 0 ? std::min(2 * measured, longest) : 0;
    }
    counted_ = count;
    set_to_ = time;
    return time;
  }

  std::uint64_t counted_ = 0, rate_ = 0, trusted_ = 0;
  std::int64_t set_to_ = 0;
};
using tsc_clock = clock_from<processor_counter>;

}  // namespace kolo::inline KOLO_ABI::detail::os

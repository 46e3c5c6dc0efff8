// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers that are the same on every machine and with every standard library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace digits {

/// A splitmix64 sequence; different seeds give unrelated sequences.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : state_{seed} {}

  std::uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// An index in [0, n).
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits() % n); }

  /// Uniform in [low, high).
  float uniform(float low, float high) { return low + (high - low) * unit(bits() >> 40); }

  /// Mean 0, standard deviation 1, within 3.5 standard deviations: the sum of four uniform 16-bit numbers of one draw.
  float normal() {
    const std::uint64_t z = bits();
    const std::uint64_t sum = (z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48);
    return (static_cast<float>(sum) / 65536.0f - 2.0f) * 1.7320508f;
  }

 private:
  static float unit(std::uint64_t twenty_four_bits) { return static_cast<float>(twenty_four_bits) * 0x1p-24f; }

  std::uint64_t state_;
};

}  // namespace digits

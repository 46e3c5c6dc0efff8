// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers that all ranks draw equally from one seed, and the values that ranks hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "collectives/elements.hpp"

namespace soak {

/// SplitMix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_{seed} {}
  std::uint64_t draw() {
    auto z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// 0 ... n - 1.
  template <class Number = int>
  Number below(Number n) {
    return static_cast<Number>(draw() % static_cast<std::uint64_t>(n));
  }
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return dice{a ^ dice{b}.draw()}.draw(); }

/// Three bytes, like a pixel.
struct pixel {
  std::array<std::uint8_t, 3> of;
  friend bool operator==(const pixel&, const pixel&) = default;
};
inline constexpr auto mix_pixels = [](const pixel& a, const pixel& b) {
  return pixel{{static_cast<std::uint8_t>(a.of[0] ^ b.of[0]), static_cast<std::uint8_t>(a.of[1] + b.of[1]),
                static_cast<std::uint8_t>(a.of[2] ^ b.of[2])}};
};

/// The element i of `rank` in the call that drew `seed`.
template <class T>
T value(std::uint64_t seed, int rank, std::size_t i) {
  const auto bits = (seed ^ (i * 0x9e3779b97f4a7c15u)) * (2 * static_cast<std::uint64_t>(rank) + 3) >> 20;
  if constexpr (std::is_same_v<T, int>) return static_cast<int>(bits % 2001) - 1000;
  else if constexpr (std::is_same_v<T, float>) return static_cast<float>(bits % 65536) / 65536.0f - 0.5f;
  else if constexpr (std::is_same_v<T, testing::affine>)
    return {static_cast<std::uint32_t>(bits) | 1, static_cast<std::uint32_t>(bits >> 8)};
  else
    return {
        {static_cast<std::uint8_t>(bits), static_cast<std::uint8_t>(bits >> 8), static_cast<std::uint8_t>(bits >> 16)}};
}

}  // namespace soak

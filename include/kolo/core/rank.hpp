// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on ranks, on the blocks of a vector, and on bits: small, pure, and usable everywhere.
#pragma once

#include <kolo/config.hpp>

#include <cstddef>
#include <cstdint>

namespace kolo::inline KOLO_ABI {

/// The remainder in [0, n), also for a negative `a`: `mod(r - 1, p)` is the left neighbour on a ring.
KOLO_HOST_DEVICE constexpr int mod(int a, int n) {
  if (0 <= a && a < n) return a;  // nearly always, and a division takes longer
  const int m = a % n;
  return m < 0 ? m + n : m;
}

/// The smallest q with 2^q >= n, for n >= 1: the number of rounds of anything that doubles.
KOLO_HOST_DEVICE constexpr int ceil_log2(int n) {
  int q = 0;
  while ((1LL << q) < n) ++q;
  return q;
}

/// The largest power of two that is not larger than n, for n >= 1.
KOLO_HOST_DEVICE constexpr int floor_power_of_two(int n) {
  int m = 1;
  while (m <= n / 2) m *= 2;
  return m;
}

namespace detail::core {
/// With at most this many ranks, writing the same data for each peer takes no longer than writing it once for all
/// (measured with 4 on 2 cores).
inline constexpr int few_ranks = 4;

/// The least multiple of `unit` that is not less than n.
constexpr std::size_t rounded_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

/// Each bit of the result depends on all bits of x: the last steps of Vigna's splitmix64.
constexpr std::uint64_t stir(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
}  // namespace detail::core

/// A part of a vector, in elements.
struct extent {
  std::size_t first = 0;  ///< where it begins
  std::size_t count = 0;  ///< how many there are
  friend constexpr bool operator==(const extent&, const extent&) = default;
};

/// Block r of n elements cut into p blocks: the first n mod p blocks are one element longer than the others.
KOLO_HOST_DEVICE constexpr extent block(std::size_t n, int p, int r) {
  if (p == 1) return {0, n};
  const auto parts = std::size_t(p), index = std::size_t(r);
  const std::size_t quotient = n / parts, longer = n % parts;
  return {index * quotient + (index < longer ? index : longer), quotient + (index < longer ? 1 : 0)};
}

}  // namespace kolo::inline KOLO_ABI

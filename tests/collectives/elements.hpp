// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the ranks hold before a collective, and the expected results, computed by plain loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace testing {

/// What rank r holds at i: small integers, whose sums are exact in any order, also in 16 bits.
constexpr int number(int rank, std::size_t i) {
  return static_cast<int>((static_cast<std::size_t>(rank) * 5 + i * 3) % 7) - 2;
}

/// x -> a x + b modulo 2^32. Composition is associative and depends on the order.
struct affine {
  std::uint32_t a, b;
};
struct then {
  static constexpr bool commutative = false;
  constexpr affine operator()(affine f, affine g) const { return {f.a * g.a, f.b * g.a + g.b}; }
};
constexpr affine map_of(int rank, std::size_t i) {
  return {static_cast<std::uint32_t>(2 * static_cast<std::size_t>(rank) + 3 + i % 5),
          static_cast<std::uint32_t>(i + 7)};
}

constexpr int int_of(int rank, std::size_t i) { return 1000 * rank + static_cast<int>(i); }

template <class T, class F>
std::vector<T> filled(std::size_t n, F at) {
  if (n == 0) return {};
  std::vector<T> x(n, static_cast<T>(at(0)));
  T* const first = x.data();  // far fewer calls per element than push_back, which count without optimisation
  for (std::size_t i = 0; i < n; ++i) first[i] = at(i);
  return x;
}

/// at(first, i) op at(first + 1, i) op ... op at(last - 1, i), from the left.
template <class T, class Op, class F>
std::vector<T> combined(int first, int last, std::size_t n, Op op, F at) {
  return filled<T>(n, [&](std::size_t i) {
    T x = at(first, i);
    for (int r = first + 1; r < last; ++r) x = op(x, at(r, i));
    return x;
  });
}

}  // namespace testing

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the arithmetic on ranks and blocks.
#include <kolo/core/rank.hpp>

static_assert(kolo::mod(-1, 4) == 3 && kolo::mod(4, 4) == 0 && kolo::mod(-8, 4) == 0);
static_assert(kolo::ceil_log2(1) == 0 && kolo::ceil_log2(4) == 2 && kolo::ceil_log2(5) == 3);
static_assert(kolo::floor_power_of_two(1) == 1 && kolo::floor_power_of_two(7) == 4 && kolo::floor_power_of_two(8) == 8);

constexpr bool blocks_tile(std::size_t n, int p) {
  std::size_t next = 0;
  for (int r = 0; r < p; ++r) {
    const auto b = kolo::block(n, p, r);
    if (b.first != next) return false;
    next += b.count;
  }
  return next == n;
}
static_assert(blocks_tile(0, 3) && blocks_tile(2, 3) && blocks_tile(10, 3) && blocks_tile(12, 3));

int main() {}

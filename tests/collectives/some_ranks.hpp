// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls on several numbers of ranks, over slots and over messages; their start values and sums.
#pragma once

#include "collectives/elements.hpp"
#include "collectives/ranks.hpp"

namespace testing {

inline std::vector<int> start_values(int rank, std::size_t n, int shift) {
  return filled<int>(n, [&](std::size_t i) { return int_of(rank, i) + shift; });
}
inline std::vector<int> sums(int p, std::size_t n, int shift) {
  return filled<int>(n, [&](std::size_t i) {
    int x = 0;
    for (int r = 0; r < p; ++r) x += int_of(r, i) + shift;
    return x;
  });
}

template <class F>
std::string on_some_ranks(F f) {
  std::string all;
  for (const int p : {1, 2, 3, 4, 7})
    for (const auto slot : {usual_slot, small_slot}) all += on_ranks(p, f, slot) + on_ranks<over_messages>(p, f, slot);
  return all;
}

}  // namespace testing

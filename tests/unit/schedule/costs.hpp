// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the counted cost of a schedule with the documented one.
#pragma once

#include "support/catch.hpp"

#include <kolo/schedule/cost.hpp>

#include <algorithm>

namespace costs {

using namespace kolo;

/// Each number is the largest among the ranks.
template <class S>
cost busiest(const S& schedule, int p, std::size_t bytes) {
  cost most;
  for (int r = 0; r < p; ++r) {
    const cost one = cost_of(schedule, r, p, bytes);
    most.rounds = one.rounds;
    most.messages = std::max(most.messages, one.messages);
    most.sent = std::max(most.sent, one.sent);
    most.received = std::max(most.received, one.received);
    most.combined = std::max(most.combined, one.combined);
  }
  return most;
}

/// Checks the busiest rank of p = 2 ... 70 with n = 960 p bytes: p, 16 and 64 blocks are equally long. `expected`: (p, n) -> cost.
template <class S, class F>
void check(const char* name, const S& schedule, F expected) {
  for (int p = 2; p <= 70; ++p) {
    if (!supports(schedule, p)) continue;
    const auto n = static_cast<std::size_t>(960 * p);
    const cost counted = busiest(schedule, p, n), said = expected(p, n);
    INFO(name << " of " << p << " ranks");
    CHECK(counted.rounds == said.rounds);
    CHECK(counted.messages == said.messages);
    CHECK(counted.sent == said.sent);
    CHECK(counted.received == said.received);
    CHECK(counted.combined == said.combined);
  }
}

inline std::size_t q(int p) { return static_cast<std::size_t>(ceil_log2(p)); }
inline std::size_t lg_floor(int p) { return static_cast<std::size_t>(ceil_log2(floor_power_of_two(p))); }
inline std::size_t others(int p) { return static_cast<std::size_t>(p - 1); }
/// (p-1)/p n
inline std::size_t most_of(int p, std::size_t n) { return n / static_cast<std::size_t>(p) * others(p); }

/// Bytes of the largest subtree below the root of a binomial tree.
inline std::size_t subtree(int p, std::size_t n) {
  const int half = 1 << (ceil_log2(p) - 1);
  return n / static_cast<std::size_t>(p) * static_cast<std::size_t>(std::max(std::min(half, p - half), half / 2));
}

}  // namespace costs

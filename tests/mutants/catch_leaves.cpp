// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes where a batch is the leaves of one tree: what is combined with what, when, the divisor, and which rank trains which leaves.
// built with others: ranks
#include <kolo/launch/threads.hpp>
#include <kolo/train/data.hpp>

#include "train/leaves.hpp"

#include <cmath>

using namespace testing;

namespace {

/// The ranks' shares are adjacent, and together they are the whole step.
bool shares(int ranks) {
  std::vector<int> items(17), seen;
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = static_cast<int>(i);
  for (int step = 0; step < 2; ++step)
    for (int r = 0; r < ranks; ++r) {
      const kolo::sharded<std::vector<int>&> mine{items, r, ranks, kolo::leaves{8}};
      const std::size_t count = mine.size() / 2;
      for (std::size_t i = 0; i < count; ++i) seen.push_back(mine[static_cast<std::size_t>(step) * count + i]);
    }
  items.resize(16);
  return seen == items;
}

bool finds_norm() {
  model m{{2}};
  m.gradients[0] = {1, 0x1p-18f};
  return kolo::clip_by_global_norm(m.parameters(), 2) == std::sqrt(1 + 0x1p-36);
}

}  // namespace

int main() {
  tally t;
  t.expect(finds_norm());
  for (const int p : {1, 3, 4}) {
    t.expect(shares(p));
    kolo::threads::run(p,
                       [&](auto& comm) {
                         t.expect(learns_by_leaves(comm, 8, make_replicated));
                         t.expect(learns_by_leaves(comm, 8, make_sharded));
                         t.expect(averages_by_leaves(comm, 8));
                       },
                       {.timeout = std::chrono::seconds{5}});
  }
  return t.wrong == 0 ? 0 : 1;
}

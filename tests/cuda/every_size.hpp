// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs tests/collectives for device views: on one to eight ranks, and with vectors longer than a piece.
#pragma once

#include "collectives/ranks.hpp"
#include "support/catch.hpp"

#include <initializer_list>

namespace testing {

/// Calls each(comm, wrong, elements).
template <class Over, class F>
void for_every_size(F each, std::initializer_list<int> sizes = {1, 2, 3, 4, 5, 6, 7, 8}) {
  for (const int p : sizes)
    CHECK(on_ranks<Over>(p, [&](auto& comm, complaints& wrong) { each(comm, wrong, 101); }) == "");
  CHECK(on_ranks<Over>(
            3, [&](auto& comm, complaints& wrong) { each(comm, wrong, 211); }, small_slot) == "");
}

}  // namespace testing

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs tests/collectives for device views sent as messages: staged in pinned memory, and passed directly to the wire (route::straight).
#pragma once

#include "cuda/every_size.hpp"
#include "cuda/on_double.hpp"

namespace testing {

template <class F>
void on_both_routes(F each) {
  for_every_size<over_device<kolo::cuda::route::staged>>(each, {1, 2, 3, 4, 5, 8});
  for_every_size<over_device<kolo::cuda::route::straight>>(each, {1, 2, 3, 4, 5, 8});
}

}  // namespace testing

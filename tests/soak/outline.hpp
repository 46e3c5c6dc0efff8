// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an epoch of the soak is, and the transports over which it may run.
#pragma once

#include "soak/dice.hpp"

namespace soak {

/// An epoch, drawn from its seed: equal on all ranks.
struct outline {
  explicit outline(std::uint64_t s) : seed{s} {
    dice d{s};
    ranks = 1 + d.below(6);
    over = d.below(5);
    steps = d.one_in(10) ? 600 : 20 + d.below(100);
    slot_bytes = std::array<std::size_t, 3>{128, 4096, 64 * 1024}[d.below<std::size_t>(3)];
  }
  std::uint64_t seed;
  int ranks, over, steps;
  std::size_t slot_bytes;
};

// One for each transport, each in a file of its own, since each takes half a minute to compile.
void over_threads(const outline& o);    ///< with faulty
void over_processes(const outline& o);  ///< as programs use it
void over_messages(const outline& o);   ///< processes, with faulty

}  // namespace soak

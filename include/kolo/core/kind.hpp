// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives, by number and by name.
#pragma once

namespace kolo::inline v0 {

/// What an algorithm accomplishes. `schedule/promise.hpp` says for each kind what is held before and after.
enum class kind {
  allreduce, reduce_scatter, allgather, broadcast, reduce, gather, scatter, alltoall, scan, exclusive_scan, barrier
};

constexpr const char* name(kind k) {
  constexpr const char* names[] = {"allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "gather",
                                   "scatter",   "alltoall",       "scan",      "exclusive_scan", "barrier"};
  const auto index = static_cast<unsigned>(k);
  return index < sizeof names / sizeof names[0] ? names[index] : "something else";
}

}  // namespace kolo::inline v0

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws of communicators that `grow` or `join` has returned, for all kinds of ranks.
#pragma once

#include <kolo/kolo.hpp>

#include <atomic>
#include <string>

#include <unistd.h>

#include "laws/shrink_laws.hpp"

namespace laws {

/// A name that no other test, and no other run of it, uses.
inline std::string fresh_meeting() {
  static std::atomic<int> count{0};
  return "test " + std::to_string(::getpid()) + '/' + std::to_string(count++);
}

/// Checks that it is rank `rank` (-1: any) of `size`, and that groups of it and symmetric memory work.
template <class C>
std::string works_after_growing(C& comm, int rank, int size) {
  if (const auto wrong = is_whole(comm, rank < 0 ? comm.rank() : rank, size); !wrong.empty()) return wrong;
  auto common = kolo::symmetric<int>(comm, 10);
  common[3] = comm.rank() + 1;
  kolo::barrier(comm);
  for (int r = 0; r < size; ++r)
    if (common.of(r)[3] != r + 1) return "symmetric memory does not contain what peers wrote";
  kolo::barrier(comm);
  return "";
}

}  // namespace laws

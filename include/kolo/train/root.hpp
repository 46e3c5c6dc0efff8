// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs work on one rank only: evaluate, print, save.
#pragma once

#include <kolo/config.hpp>

#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI {

/// Calls `f` on the root only; returns true on the root. Does not synchronise: the other ranks return at once, and wait
/// for the root in the next operation that they have in common with it, whose deadline includes the time of `f`.
template <class Comm, class F>
bool on_root(const Comm& comm, F&& f, int root = 0) {
  static_assert(std::is_invocable_v<F>, "kolo: on_root calls f() without arguments: capture what it needs");
  if (comm.rank() != root) return false;
  std::forward<F>(f)();
  return true;
}

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work that only one rank should do: evaluate, print, save.
#pragma once

#include <kolo/config.hpp>

#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI {

/// Calls `f` on the root and nowhere else; true on the root. Nobody waits: the other ranks go on at once, and wait at
/// the next operation that they have in common with the root, where its time counts against their deadline.
template <class Comm, class F>
bool on_root(const Comm& comm, F&& f, int root = 0) {
  static_assert(std::is_invocable_v<F>, "kolo: on_root calls f without arguments; capture what it needs");
  if (comm.rank() != root) return false;
  std::forward<F>(f)();
  return true;
}

}  // namespace kolo::inline KOLO_ABI

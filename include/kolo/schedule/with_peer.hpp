// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank's part in what is between it and another one: one block there, one here, or both.
#pragma once

#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// This rank's part: one block to its peer, or from it, or both. Of no other rank it says anything.
template <kind K>
struct with_peer {
  int peer = nobody;
  static constexpr auto collective = K;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  constexpr int key() const { return peer; }
  constexpr step at(int, int, int) const {
    transfer t;
    if constexpr (K != kind::receive) t.to = peer, t.send = {0, 1};
    if constexpr (K != kind::send) t.from = peer, t.receive = {1, 1};
    return t;
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The schedule of one rank in a send, a receive or an exchange with another rank.
#pragma once

#include <kolo/schedule/schedule.hpp>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// One block to the peer, one block from it, or both. It describes the steps of this rank only.
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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// After a failure: how a rank gets back what it has lent to a peer.
#pragma once

#include <kolo/transport/transport.hpp>

#include <sched.h>
#include <unistd.h>

namespace kolo::inline KOLO_ABI::detail::transport {

/// No piece that refers to this rank's memory is taken by the peer any more. Waits for a peer in the middle of one; a
/// process that has not come to its end a second after `since` has it taken back.
template <SharedMemoryTransport T>
[[gnu::cold, gnu::noinline]] void take_back(T& transport, int peer, backoff::clock::time_point since) {
  constexpr std::chrono::milliseconds usual_piece{1}, longest_piece{1000};
  while (!transport.cancel(peer)) {
    const auto waited = backoff::clock::now() - since;
    if (waited > longest_piece && transport.revoke(peer)) return;
    waited < usual_piece ? void(::sched_yield()) : void(::usleep(200));
  }
}

}  // namespace kolo::inline KOLO_ABI::detail::transport

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// After a failure: how a rank gets back the memory it has lent to a peer.
#pragma once

#include <kolo/transport/transport.hpp>

#include <sched.h>
#include <unistd.h>

namespace kolo::inline KOLO_ABI::detail::transport {

/// Ensures that the peer claims no more pieces that refer to this rank's memory. Waits for a peer in the middle of one;
/// from a process that has not finished it a second after `since`, revokes it.
[[gnu::cold, gnu::noinline]] void reclaim(SharedMemoryTransport auto& transport, int peer,
                                          backoff::clock::time_point since) {
  constexpr std::chrono::milliseconds usual_piece{1}, longest_piece{1000};
  while (!transport.cancel(peer)) {
    const auto waited = backoff::clock::now() - since;
    if (waited > longest_piece && transport.revoke(peer)) return;
    waited < usual_piece ? void(::sched_yield()) : void(::usleep(200));
  }
}

}  // namespace kolo::inline KOLO_ABI::detail::transport

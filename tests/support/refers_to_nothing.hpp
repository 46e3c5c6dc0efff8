// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A transport of threads that moves all data through its slots.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/shm/slot_transport.hpp>

#include <utility>

/// Gives peers no references to memory. Counts its pieces, and those of them in spare buffers.
struct refers_to_nothing : kolo::threads::transport {
  using kolo::threads::transport::slot_transport;
  explicit refers_to_nothing(kolo::threads::transport&& t) : slot_transport{std::move(t)} {}
  refers_to_nothing split(int color, int key) { return refers_to_nothing{slot_transport::split(color, key)}; }
  kolo::remote_ref make_remote_ref(const std::byte*, std::size_t) { return {}; }
  std::uint64_t commit(int peer, std::size_t bytes, std::uint64_t tag, const kolo::indirect& where = {}) {
    ++pieces, spares += where.is_spare ? 1 : 0;
    return slot_transport::commit(peer, bytes, tag, where);
  }
  int pieces = 0, spares = 0;
};
static_assert(kolo::SharedMemoryTransport<refers_to_nothing>);

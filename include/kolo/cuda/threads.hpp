// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo over threads for device views: the communicator of ranks in one process, on one device or several.
#pragma once

#include <kolo/cuda/direct_native.hpp>
#include <kolo/cuda/threads_transport.hpp>
#include <kolo/kolo.hpp>

namespace kolo::inline KOLO_ABI::cuda {

static_assert(MessageTransport<threads_transport> && !SlotTransport<threads_transport>);

/// `kolo::cuda::threads_communicator comm{host};` in each thread of `kolo::threads::run`, then all collectives of device views, with
/// `{.stream = stream}`; `comm.transport().wait({.stream = stream})` waits.
using threads_communicator = kolo::communicator<threads_transport>;

/// As kolo::threads::run, with communicators for device views: rank r has device r modulo the devices that there are.
template <class F>
void run_threads(int ranks, F f, const threads::options& o = {}, const direct_options& own = {}) {
  const int count = devices();
  if (count == 0)
    throw error{errc::system, "kolo::cuda::run_threads needs a GPU and its driver, and this process sees none"};
  threads::run(
      ranks,
      [&](threads::communicator& host) {
        set_device(host.rank() % count);
        threads_communicator comm{host, own};
        f(comm);
      },
      o);
}

}  // namespace kolo::inline KOLO_ABI::cuda

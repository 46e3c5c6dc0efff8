// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo over threads for device views: the communicator of ranks in one process, on one device or several.
#pragma once

#include <kolo/cuda/direct.hpp>
#include <kolo/cuda/direct_native.hpp>
#include <kolo/kolo.hpp>

namespace kolo::inline KOLO_ABI::cuda {

/// `kolo::cuda::threads_communicator comm{host};` in each thread of `kolo::threads::run`, then all collectives of
/// device views, with `{.stream = stream}`; `comm.transport().wait({.stream = stream})` waits.
using threads_communicator = kolo::communicator<threads_transport>;

/// As kolo::threads::run, with communicators for device views: rank r uses device r modulo the number of devices.
template <class F>
void run_threads(int ranks, F f, const threads::options& o = {}, const direct_options& own = {}) {
  detail::cuda::run_threads_each<threads_communicator>(
      ranks, o, own, &f, [](void* g, threads_communicator& comm) { (*static_cast<F*>(g))(comm); });
}

}  // namespace kolo::inline KOLO_ABI::cuda

#ifndef KOLO_COMPILED
#include <kolo/cuda/threads_transport.hpp>
#endif
#ifndef KOLO_DECLARES
#include <kolo/cuda/impl/direct.hpp>
#endif

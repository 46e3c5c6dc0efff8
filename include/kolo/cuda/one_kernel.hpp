// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo over threads for device views, with plans that are one kernel on each device: the communicator.
#pragma once

#include <kolo/cuda/one_kernel_transport.hpp>
#include <kolo/cuda/threads.hpp>

namespace kolo::inline KOLO_ABI::cuda {

static_assert(MessageTransport<one_kernel_transport> && !SlotTransport<one_kernel_transport> &&
              detail::execute::CapturesMessages<one_kernel_transport>);

/// `kolo::cuda::one_kernel_communicator comm{host};` in each thread of `kolo::threads::run`, with its device current;
/// then as `threads_communicator`. `plan_...(comm, ..., algorithm)` runs as one kernel; `plan.how()` reports it.
using one_kernel_communicator = kolo::communicator<one_kernel_transport>;

}  // namespace kolo::inline KOLO_ABI::cuda

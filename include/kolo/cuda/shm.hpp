// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo over shared memory for device views: the communicator of processes of one host, on one device or several.
#pragma once

#include <kolo/cuda/direct.hpp>
#include <kolo/cuda/direct_native.hpp>
#include <kolo/kolo.hpp>

namespace kolo::inline KOLO_ABI::cuda {

/// `kolo::cuda::set_device(host.local_rank()); kolo::cuda::shm_communicator comm{host};` in each process, over a
/// `kolo::shm::communicator`; then all collectives of device views, with `{.stream = stream}`;
/// `comm.transport().wait({.stream = stream})` waits. The device must be current already when it is made. In what
/// `kolo::shm::launch` runs CUDA may be used, but not before it: CUDA does not survive a fork.
///
/// * Views must lie in memory of cudaMalloc, each run of them in one allocation, else it is an error. A peer opens a
///   whole allocation (CUDA: the 2 MiB around a small one as well), once, and closes it when its communicator goes,
///   when something else is shown from the same address, or when it opens another one and has used 64 of this rank's
///   since. Where something else is shown from the same address, a call waits until the stream has come past what was
///   done with the old one, as long as its deadline lets it.
/// * Memory that was shown may be freed after the call that showed it has happened; CUDA calls that undefined while a
///   peer has it open. As other libraries that work in this way have found, the device keeps it until it is closed:
///   a program that frees and allocates all the time has less of it.
/// * A process that dies with work on its stream may leave the streams of others waiting for it: CUDA cannot take a
///   wait back. They are told who died; their own memory is to be had again when they end.
/// * The communicator's end waits for this rank's stream, unless it has failed: then what it has on the device, and
///   what it has open, is given back when the process ends.
using shm_communicator = kolo::communicator<shm_transport>;

}  // namespace kolo::inline KOLO_ABI::cuda

#ifndef KOLO_COMPILED
#include <kolo/cuda/shm_transport.hpp>
#endif
#ifndef KOLO_DECLARES
#include <kolo/cuda/impl/direct.hpp>
#endif

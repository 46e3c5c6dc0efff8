// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo over shared memory for device views: the communicator of processes of one host, on one device or several.
#pragma once

#include <kolo/cuda/direct.hpp>
#include <kolo/cuda/direct_native.hpp>
#include <kolo/kolo.hpp>

namespace kolo::inline KOLO_ABI::cuda {

/// `kolo::cuda::set_device(host.local_rank()); kolo::cuda::shm_communicator comm{host};` in each process, over a
/// `kolo::shm::communicator`; then all collectives of device views, with `{.stream = stream}`;
/// `comm.transport().wait({.stream = stream})` waits. The device must be current when the communicator is made. The
/// function that `kolo::shm::launch` runs may use CUDA, but nothing before it may: CUDA does not survive a fork.
///
/// * Views must lie in memory of cudaMalloc, each run of them in one allocation, else it is an error. A peer opens a
///   whole allocation (CUDA: the 2 MiB around a small one as well), once, and closes it when its communicator is
///   destroyed, when another allocation is published from the same address, or when it opens another one and has used
///   64 of this rank's since. Where another allocation is published from the same address, a call waits, within its
///   deadline, until the stream has passed the work on the old one.
/// * Published memory may be freed when the call that published it has completed on the stream; CUDA calls that
///   undefined while a peer has it open. As other libraries that work in this way have found, the device keeps it until
///   it is closed: a program that frees and allocates all the time has less of it.
/// * A process that dies with work on its stream may leave the streams of others waiting for it: CUDA cannot cancel a
///   wait. The other ranks learn which one died; their own memory is freed when they end.
/// * The communicator's destructor waits for this rank's stream, unless the communicator has failed: then its memory on
///   the device, and the memory that it has open, is given back when the process ends.
using shm_communicator = kolo::communicator<shm_transport>;

}  // namespace kolo::inline KOLO_ABI::cuda

#ifndef KOLO_COMPILED
#include <kolo/cuda/shm_transport.hpp>
#endif
#ifndef KOLO_DECLARES
#include <kolo/cuda/impl/direct.hpp>
#endif

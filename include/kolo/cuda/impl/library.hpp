// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiled library's communicators for device views, over threads and shared memory: src.cuh compiles them.
#pragma once

#include <kolo/cuda/impl/direct.hpp>
#include <kolo/cuda/shm.hpp>
#include <kolo/cuda/shm_transport.hpp>
#include <kolo/cuda/threads.hpp>
#include <kolo/cuda/threads_transport.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/impl/instantiate.hpp>

namespace kolo::inline KOLO_ABI {

namespace cuda {
static_assert(MessageTransport<threads_transport> && !SlotTransport<threads_transport>);
static_assert(MessageTransport<shm_transport> && !SlotTransport<shm_transport>);

template void wait(const threads_communicator&, const call_options&);
template void wait(const shm_communicator&, const call_options&);

}  // namespace cuda
}  // namespace kolo::inline KOLO_ABI

namespace kolo::inline KOLO_ABI::detail::cuda {
template void start_together<kolo::cuda::threads_transport>(void*, const kolo::collective_args&, void*, kernel_of_all);
template void start_together<kolo::cuda::shm_transport>(void*, const kolo::collective_args&, void*, kernel_of_all);
template void run_threads_each<kolo::cuda::threads_communicator>(int, const threads::options&,
                                                                 const kolo::cuda::direct_options&, void*,
                                                                 void (*)(void*, kolo::cuda::threads_communicator&));
}  // namespace kolo::inline KOLO_ABI::detail::cuda

namespace kolo::inline KOLO_ABI {

namespace detail::cuda {
template <class T>
using made = std::shared_ptr<execute::engine<T>>;
}  // namespace detail::cuda

template detail::cuda::made<kolo::cuda::threads_transport> detail::execute::make_engine<kolo::cuda::threads_transport>(
    threads::communicator&);
template detail::cuda::made<kolo::cuda::threads_transport> detail::execute::make_engine<kolo::cuda::threads_transport>(
    threads::communicator&, kolo::cuda::direct_options&);
template detail::cuda::made<kolo::cuda::threads_transport> detail::execute::make_engine<kolo::cuda::threads_transport>(
    threads::communicator&, kolo::cuda::direct_options&&);
template detail::cuda::made<kolo::cuda::threads_transport> detail::execute::make_engine<kolo::cuda::threads_transport>(
    threads::communicator&, const kolo::cuda::direct_options&);
template detail::cuda::made<kolo::cuda::shm_transport> detail::execute::make_engine<kolo::cuda::shm_transport>(
    kolo::shm::communicator&);
template detail::cuda::made<kolo::cuda::shm_transport> detail::execute::make_engine<kolo::cuda::shm_transport>(
    kolo::shm::communicator&, kolo::cuda::direct_options&);
template detail::cuda::made<kolo::cuda::shm_transport> detail::execute::make_engine<kolo::cuda::shm_transport>(
    kolo::shm::communicator&, kolo::cuda::direct_options&&);
template detail::cuda::made<kolo::cuda::shm_transport> detail::execute::make_engine<kolo::cuda::shm_transport>(
    kolo::shm::communicator&, const kolo::cuda::direct_options&);

}  // namespace kolo::inline KOLO_ABI

KOLO_ENGINE(template, kolo::cuda::threads_transport)
KOLO_ENGINE(template, kolo::cuda::shm_transport)

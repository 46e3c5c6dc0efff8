// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations for ranks of one host that reach each other's memory on devices: names of the transports and their
// options, without the bodies.
#pragma once

#include <kolo/cuda/executor.hpp>
#include <kolo/execute/calls.hpp>
#include <kolo/execute/executor_type.hpp>
#include <kolo/shm/group.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

namespace cuda {

/// Options of such a communicator; equal on all ranks.
struct direct_options {
  std::size_t piece_bytes =
      std::size_t{64}
      << 20;  ///< see MessageTransport; every piece costs a rank a copy for each message, and a wait for its peers
};

template <class Batch, class PeerMemory>
class direct_transport;  // direct_transport.hpp

}  // namespace cuda
}  // namespace kolo::inline KOLO_ABI

namespace kolo::inline KOLO_ABI::detail::cuda {
class in_process;         // threads_transport.hpp
class between_processes;  // shm_transport.hpp

/// Puts on the stream a collective that is one kernel on each rank. `in`, `out`: of each rank.
using kernel_of_all = void (*)(cudaStream_t, const kolo::collective_args&, const std::byte* const* in,
                               std::byte* const* out, int rank, int size);

/// Calls `all_together` of the transport, and writes its ticket (impl/direct.hpp).
template <class T>
void start_together(void* transport, const kolo::collective_args& args, void* ticket, kernel_of_all kernel);

/// Runs `call(f, comm)` on each thread, with its device current (impl/direct.hpp).
template <class Comm>
void run_threads_each(int ranks, const threads::options& o, const kolo::cuda::direct_options& own, void* f,
                      void (*call)(void* f, Comm& comm));
}  // namespace kolo::inline KOLO_ABI::detail::cuda

namespace kolo::inline KOLO_ABI {
namespace cuda {

/// Over ranks that are threads.
using threads_transport = direct_transport<device_copy_batch, detail::cuda::in_process>;
/// Over ranks that are processes of one host.
using shm_transport = direct_transport<device_copy_batch, detail::cuda::between_processes>;

/// Waits until all work on the stream has completed, as `comm.transport().wait({.stream = stream})`. A failure of any
/// rank, or the deadline, ends the waiting, but not the work on the stream.
template <class Batch, class PeerMemory>
void wait(const kolo::communicator<direct_transport<Batch, PeerMemory>>& comm, const call_options& o = {});

}  // namespace cuda

template <class Batch, class PeerMemory>
inline constexpr memory_space space_of<cuda::direct_transport<Batch, PeerMemory>> = memory_space::device;

template <class Batch, class PeerMemory>
struct detail::execute::options_of<kolo::cuda::direct_transport<Batch, PeerMemory>> {
  using type = kolo::cuda::call_options;
};
template <class Batch, class PeerMemory>
struct detail::execute::executor_type<kolo::cuda::direct_transport<Batch, PeerMemory>> {
  using type = kolo::cuda::stream_executor<Batch>;
};

#ifdef KOLO_COMPILED
template <>
inline constexpr bool detail::execute::is_in_library<kolo::cuda::threads_transport> = true;
template <>
inline constexpr bool detail::execute::is_in_library<kolo::cuda::shm_transport> = true;

// Made from the host's communicator, and options.
template <class... Options>
inline constexpr bool detail::execute::is_made_of<kolo::cuda::threads_transport, threads::communicator&, Options...> =
    sizeof...(Options) <= 1 && (true && ... && std::same_as<std::remove_cvref_t<Options>, kolo::cuda::direct_options>);
template <class... Options>
inline constexpr bool detail::execute::is_made_of<kolo::cuda::shm_transport, kolo::shm::communicator&, Options...> =
    sizeof...(Options) <= 1 && (true && ... && std::same_as<std::remove_cvref_t<Options>, kolo::cuda::direct_options>);
#endif

}  // namespace kolo::inline KOLO_ABI

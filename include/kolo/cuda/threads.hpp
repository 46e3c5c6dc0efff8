// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo over threads for device views: the communicator of ranks in one process, on one device or several.
#pragma once

#include <kolo/cuda/fused_allreduce.hpp>
#include <kolo/cuda/threads_transport.hpp>
#include <kolo/kolo.hpp>

namespace kolo::inline v0::cuda {

static_assert(Messaging<threads_transport> && !Slotted<threads_transport>);

/// `kolo::cuda::threads_communicator comm{host};` in each thread of `kolo::threads::run`, then all collectives of device views, with
/// `{.stream = stream}`; `comm.transport().wait({.stream = stream})` waits.
using threads_communicator = kolo::communicator<threads_transport>;

/// As kolo::threads::run, with communicators for device views: rank r has device r modulo the devices that there are.
template <class F>
void run_threads(int ranks, F f, const threads::options& o = {}, const threads_options& own = {}) {
  const int count = devices();
  if (count == 0) throw error{errc::system, "kolo::cuda::run_threads needs a GPU and its driver, and this process sees none"};
  threads::run(ranks, [&](threads::communicator& host) {
    set_device(host.rank() % count);
    threads_communicator comm{host, own};
    f(comm);
  }, o);
}

}  // namespace kolo::inline v0::cuda

namespace kolo::inline v0::detail {

/// An allreduce as one kernel on each rank, in one pass over all ranks' memory (cuda/fused_allreduce.hpp): of any elements and operator that travel as they are.
template <>
struct native_of<cuda::threads_transport> {
  static constexpr bool keeps_order = true;  ///< of the ranks

  template <kind K, class T, class Op>
  static constexpr bool has() {
    if constexpr (K == kind::allreduce) return std::same_as<T, wire_element_t<Op, T>>;
    else return false;
  }
  static const char* refusal(problem& job, int /*rank*/, int size) {
    job.compute.finishes = false;  // the kernel does it
    if (size > 1024) return "one kernel combines at most 1024 vectors: name an algorithm";
    return cuda::devices_reach_each_other() ? nullptr : "the devices that this process sees cannot all touch each other's memory: name an algorithm";
  }
  template <kind K, class T, class Op>
  static constexpr auto start() {
    return [](void* self, const problem& job, void* ticket) {
      using transport = cuda::threads_transport;
      *static_cast<typename transport::ticket*>(ticket) = static_cast<transport*>(self)->all_together(job, &begin<T, Op>);
    };
  }

 private:
  template <class T, class Op>
  static void begin(cudaStream_t stream, const problem& job, const std::byte* const* in, std::byte* const* out, int rank, int size) {
    cuda::detail::fused_allreduce<T, Op>::begin(stream, *static_cast<const Op*>(job.compute.op), in, out, job.count, size, rank);
  }
};

}  // namespace kolo::inline v0::detail

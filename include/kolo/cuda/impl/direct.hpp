// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bodies of the functions that cuda/direct.hpp declares.
#pragma once

#include <kolo/cuda/direct_transport.hpp>
#include <kolo/cuda/runtime.hpp>
#include <kolo/launch/threads.hpp>

namespace kolo::inline KOLO_ABI::detail::cuda {

template <class T>
void start_together(void* transport, const kolo::collective_args& args, void* ticket, kernel_of_all kernel) {
  *static_cast<typename T::ticket*>(ticket) = static_cast<T*>(transport)->all_together(args, kernel);
}

template <class Comm>
void run_threads_each(int ranks, const threads::options& o, const kolo::cuda::direct_options& own, void* f,
                      void (*call)(void* f, Comm& comm)) {
  const int count = kolo::cuda::devices();
  if (count == 0)
    throw error{errc::system, "kolo::cuda::run_threads needs a GPU and its driver, and this process sees none"};
  threads::run(
      ranks,
      [&](threads::communicator& host) {
        kolo::cuda::set_device(host.rank() % count);
        Comm comm{host, own};
        call(f, comm);
      },
      o);
}

}  // namespace kolo::inline KOLO_ABI::detail::cuda

namespace kolo::inline KOLO_ABI::cuda {

template <class Batch, class PeerMemory>
void wait(const kolo::communicator<direct_transport<Batch, PeerMemory>>& comm, const call_options& o) {
  comm.transport().wait(o);
}

}  // namespace kolo::inline KOLO_ABI::cuda

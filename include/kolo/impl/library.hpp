// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiled library consists of, once: impl/src.hpp makes it, and in compiled mode whatever includes the bodies as well leaves it to the library.
#pragma once

#include <kolo/execute/self.hpp>
#include <kolo/impl/engine.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#ifndef KOLO_LIBRARY
#define KOLO_LIBRARY extern template
#endif

#define KOLO_CANDIDATES(T, K) KOLO_LIBRARY std::span<const candidate> candidates_in<kind::K, T>(const question&);

#define KOLO_ENGINE(T)                                                                                                \
  KOLO_LIBRARY void begin_call<T>(engine<T>&);                                                                        \
  KOLO_LIBRARY void refuse<T>(engine<T>&, const char*, const char*);                                                  \
  KOLO_LIBRARY void prepare_call<T>(engine<T>&, collective_args&, const call_traits&, std::size_t, int);              \
  KOLO_LIBRARY void run_call<T>(engine<T>&, collective_args&, const options_of<T>::type&, const call_types&,          \
                                call_site);                                                                           \
  KOLO_LIBRARY std::byte* token_of<T>(engine<T>&, std::byte*);                                                        \
  KOLO_LIBRARY std::vector<int> nodes_told_on_host<T>(engine<T>&, int);                                               \
  KOLO_LIBRARY resource_pointer heap_under<T>(engine<T>&);                                                            \
  KOLO_CANDIDATES(T, allreduce)                                                                                       \
  KOLO_CANDIDATES(T, reduce_scatter)                                                                                  \
  KOLO_CANDIDATES(T, allgather)                                                                                       \
  KOLO_CANDIDATES(T, broadcast)                                                                                       \
  KOLO_CANDIDATES(T, reduce)                                                                                          \
  KOLO_CANDIDATES(T, gather)                                                                                          \
  KOLO_CANDIDATES(T, scatter)                                                                                         \
  KOLO_CANDIDATES(T, alltoall)                                                                                        \
  KOLO_CANDIDATES(T, scan)                                                                                            \
  KOLO_CANDIDATES(T, exclusive_scan)                                                                                  \
  KOLO_CANDIDATES(T, barrier)

namespace kolo::inline KOLO_ABI {

KOLO_LIBRARY class communicator<shm::transport>;
KOLO_LIBRARY class communicator<threads::transport>;
KOLO_LIBRARY class communicator<self::transport>;
KOLO_LIBRARY class request<shm::transport>;
KOLO_LIBRARY class request<threads::transport>;
KOLO_LIBRARY class request<self::transport>;
KOLO_LIBRARY class plan<shm::transport>;
KOLO_LIBRARY class plan<threads::transport>;
KOLO_LIBRARY class plan<self::transport>;

namespace detail {
KOLO_ENGINE(shm::transport)
KOLO_ENGINE(threads::transport)
KOLO_ENGINE(self::transport)
KOLO_LIBRARY std::vector<std::shared_ptr<std::byte>> symmetric_parts<shm::transport>(engine<shm::transport>&,
                                                                                     std::size_t);
KOLO_LIBRARY std::vector<std::shared_ptr<std::byte>> symmetric_parts<threads::transport>(engine<threads::transport>&,
                                                                                         std::size_t);
}  // namespace detail

namespace shm::detail {
KOLO_LIBRARY communicator neighbours_under<shm::transport>(kolo::detail::engine<shm::transport>&, const options&);
KOLO_LIBRARY communicator neighbours_under<threads::transport>(kolo::detail::engine<threads::transport>&,
                                                               const options&);
}  // namespace shm::detail

}  // namespace kolo::inline KOLO_ABI

#undef KOLO_ENGINE
#undef KOLO_CANDIDATES
#undef KOLO_LIBRARY

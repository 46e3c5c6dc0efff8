// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of a transport T that are compiled once, in one file:
//
// * that file includes impl/engine.hpp and has `KOLO_ENGINE(template, T)`
// * a header that all others include has `KOLO_ENGINE(extern template, T)`
//
// Both at namespace scope outside of kolo; T is a name without commas. impl/library.hpp does it for shm and threads;
// programs may do it for transports of their own.
#pragma once

#include <kolo/execute/request.hpp>
#include <kolo/launch/processes.hpp>
#include <kolo/shm/heap.hpp>
#include <kolo/shm/symmetric.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#define KOLO_CANDIDATES(TEMPLATE, T, K)                                                                            \
  TEMPLATE std::span<const kolo::detail::select::candidate> kolo::detail::select::candidates_in<kolo::kind::K, T>( \
      const kolo::detail::select::selection_query&);

#define KOLO_ENGINE(TEMPLATE, T)                                                                                       \
  TEMPLATE class kolo::communicator<T>;                                                                                \
  TEMPLATE class kolo::request<T>;                                                                                     \
  TEMPLATE class kolo::plan<T>;                                                                                        \
  TEMPLATE void kolo::detail::execute::begin_call<T>(kolo::detail::execute::engine<T>&, const char*);                  \
  TEMPLATE void kolo::detail::execute::refuse<T>(kolo::detail::execute::engine<T>&, const char*, const char*);         \
  TEMPLATE void kolo::detail::execute::refuse<T>(kolo::detail::execute::engine<T>&, const char*, const char*,          \
                                                 long long, const char*, long long);                                   \
  TEMPLATE void kolo::detail::execute::refuse_algorithm<T>(kolo::detail::execute::engine<T>&, const char*,             \
                                                           std::string_view);                                          \
  TEMPLATE void kolo::detail::execute::prepare_call<T>(kolo::detail::execute::engine<T>&, kolo::collective_args&,      \
                                                       const kolo::detail::execute::call_traits&, std::size_t, int);   \
  TEMPLATE void kolo::detail::execute::prepare_pair_call<T>(kolo::detail::execute::engine<T>&, kolo::collective_args&, \
                                                            std::uint32_t, std::uint32_t);                             \
  TEMPLATE void kolo::detail::execute::run_call<T>(kolo::detail::execute::engine<T>&, kolo::collective_args&,          \
                                                   const kolo::detail::execute::options_of<T>::type&,                  \
                                                   const kolo::detail::execute::call_types&, kolo::call_site);         \
  TEMPLATE std::chrono::nanoseconds kolo::detail::execute::time_limit<T>(const kolo::detail::execute::engine<T>&);     \
  TEMPLATE void kolo::detail::execute::pass_on<T>(kolo::detail::execute::engine<T>&, std::string_view);                \
  TEMPLATE void kolo::detail::execute::break_by_exception<T>(kolo::detail::execute::engine<T>&, const char*);          \
  TEMPLATE std::byte* kolo::detail::execute::token_of<T>(kolo::detail::execute::engine<T>&, std::byte*);               \
  TEMPLATE std::vector<int> kolo::detail::execute::allgather_nodes<T>(kolo::detail::execute::engine<T>&, int);         \
  TEMPLATE kolo::detail::shm::resource_pointer kolo::detail::shm::heap_under<T>(kolo::detail::execute::engine<T>&);    \
  TEMPLATE std::span<const kolo::detail::select::candidate> kolo::detail::select::candidates_of_one_tree<T>(           \
      const kolo::detail::select::selection_query&);                                                                   \
  KOLO_CANDIDATES(TEMPLATE, T, allreduce)                                                                              \
  KOLO_CANDIDATES(TEMPLATE, T, reduce_scatter)                                                                         \
  KOLO_CANDIDATES(TEMPLATE, T, allgather)                                                                              \
  KOLO_CANDIDATES(TEMPLATE, T, broadcast)                                                                              \
  KOLO_CANDIDATES(TEMPLATE, T, reduce)                                                                                 \
  KOLO_CANDIDATES(TEMPLATE, T, gather)                                                                                 \
  KOLO_CANDIDATES(TEMPLATE, T, scatter)                                                                                \
  KOLO_CANDIDATES(TEMPLATE, T, alltoall)                                                                               \
  KOLO_CANDIDATES(TEMPLATE, T, scan)                                                                                   \
  KOLO_CANDIDATES(TEMPLATE, T, exclusive_scan)                                                                         \
  KOLO_CANDIDATES(TEMPLATE, T, barrier)

/// The same for a transport whose ranks address common memory.
#define KOLO_MEMORY(TEMPLATE, T)                                                          \
  TEMPLATE std::vector<std::shared_ptr<std::byte>> kolo::detail::shm::symmetric_parts<T>( \
      kolo::detail::execute::engine<T>&, std::size_t);

/// The same for optimizers over this transport, after an include of train.hpp. Their bodies come with impl/engine.hpp
/// in compiled mode only.
#define KOLO_TRAIN(TEMPLATE, T)                                                                 \
  TEMPLATE class kolo::detail::train::gradient_exchange<T>;                                     \
  TEMPLATE class kolo::detail::train::bucket_queue<T>;                                          \
  TEMPLATE class kolo::detail::train::calls_of<T>;                                              \
  TEMPLATE class kolo::detail::train::leaf_sums<T>;                                             \
  TEMPLATE bool kolo::detail::train::are_alike<T>(const kolo::communicator<T>&, std::uint64_t); \
  TEMPLATE std::uint32_t kolo::detail::train::number_of_optimizer<T>(kolo::detail::execute::engine<T>&);

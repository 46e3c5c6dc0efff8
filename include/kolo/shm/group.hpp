// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The public names of a group of ranks that share memory, threads or processes: its communicator and its options.
#pragma once

#include <kolo/execute/communicator.hpp>
#include <kolo/view/memory.hpp>

#include <chrono>
#include <cstddef>

namespace kolo::inline KOLO_ABI {

namespace detail::shm {

/// The options of a new group of ranks that share memory; equal on all ranks.
struct group_options {
  std::chrono::nanoseconds timeout{
      std::chrono::minutes{5}};  ///< of every operation that sets none, and of the rendezvous
  int ranks_per_node = 0;        ///< 0: all ranks share one node; else groups of this size act as nodes
  std::size_t slot_bytes = 0;    ///< the largest piece; an element must fit; 0: 4 to 64 KiB, by the ranks and L2
  bool checked = false;          ///< see observe/checked.hpp
};

/// The options of one call.
struct call_options {
  std::chrono::nanoseconds timeout{};  ///< of this call; 0: the communicator's
};

class private_mapping;  // shm/mapping.hpp
class shared_mapping;   // shm/shared_mapping.hpp
template <class Memory>
class slot_transport;  // shm/slot_transport.hpp

}  // namespace detail::shm

template <class Memory>
inline constexpr memory_space space_of<detail::shm::slot_transport<Memory>> = memory_space::host;

template <class Memory>
struct detail::execute::options_of<detail::shm::slot_transport<Memory>> {
  using type = detail::shm::call_options;
};
template <>
inline constexpr bool detail::execute::is_in_library<detail::shm::slot_transport<detail::shm::private_mapping>> = true;
template <>
inline constexpr bool detail::execute::is_in_library<detail::shm::slot_transport<detail::shm::shared_mapping>> = true;

namespace threads {
/// The transport of threads: slots in the memory of the process.
using transport = detail::shm::slot_transport<detail::shm::private_mapping>;
/// The communicator that `kolo::threads::run` passes to each thread.
using communicator = kolo::communicator<transport>;
/// Set once, when the ranks are started, equal on all of them: `.timeout` of every operation that sets none (5
/// minutes), `.checked` (as KOLO_CHECKED=1), `.ranks_per_node` (groups of this size act as nodes; 0: all share one),
/// `.slot_bytes` (the largest piece; 0: 64 KiB among few ranks, at least 4 KiB among many).
using options = detail::shm::group_options;
}  // namespace threads

namespace shm {
/// The transport of processes of one host: slots in shared memory.
using transport = detail::shm::slot_transport<detail::shm::shared_mapping>;
/// The communicator that `kolo::shm::launch` and `kolo::shm::world` make.
using communicator = kolo::communicator<transport>;
/// As `threads::options`.
using options = detail::shm::group_options;
}  // namespace shm

}  // namespace kolo::inline KOLO_ABI

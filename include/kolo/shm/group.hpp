// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A group of ranks that share memory, threads or processes, as whoever calls on it knows it: by name, and by what may
// be said about it.
#pragma once

#include <kolo/execute/communicator.hpp>
#include <kolo/view/memory.hpp>

#include <chrono>
#include <cstddef>

namespace kolo::inline KOLO_ABI {

namespace detail::shm {

/// What may be said when a group of ranks that share memory is made; equal on all ranks.
struct group_options {
  std::chrono::nanoseconds timeout{
      std::chrono::minutes{5}};  ///< of every operation that names none, and of the ranks' meeting
  int ranks_per_node = 0;        ///< 0: all ranks share one node; else groups that stand for nodes
  std::size_t slot_bytes = 0;    ///< the largest piece; an element must fit; 0: 4 to 64 KiB, by the ranks and L2
  bool checked = false;          ///< see observe/checked.hpp
};

/// What may be said with one call.
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
/// What `kolo::threads::run` hands to each thread.
using communicator = kolo::communicator<transport>;
/// What is said once, when the ranks are started, equal on all of them: `.timeout` of every operation that names none
/// (5 minutes), `.checked` (as KOLO_CHECKED=1), `.ranks_per_node` (groups that stand for nodes; 0: all share one),
/// `.slot_bytes` (the largest piece; 0: 64 KiB among few ranks, 4 KiB at least among many).
using options = detail::shm::group_options;
}  // namespace threads

namespace shm {
/// The transport of processes of one host: slots in shared memory.
using transport = detail::shm::slot_transport<detail::shm::shared_mapping>;
/// What `kolo::shm::launch` and `kolo::shm::world` make.
using communicator = kolo::communicator<transport>;
/// As `threads::options`.
using options = detail::shm::group_options;
}  // namespace shm

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as processes on one host, which share memory: started here by `launch`, found by `world` if a launcher started
// them, or among the ranks of another communicator.
#pragma once

#include <kolo/shm/group.hpp>

#include <concepts>
#include <string_view>
#include <type_traits>

namespace kolo::inline KOLO_ABI::detail::launch {
/// Runs `call(f, comm)`, which returns an exit status, in each process (impl/launch.hpp). (A template, so that none of
/// it is compiled until it is called.)
template <class Comm>
int launch_each(int ranks, const kolo::shm::options& o, void* f, int (*call)(void* f, Comm& comm));
/// Defined in impl/node_communicator.hpp.
template <class T>
kolo::shm::communicator node_communicator_of(execute::engine<T>& e, const kolo::shm::options& o);
}  // namespace kolo::inline KOLO_ABI::detail::launch

namespace kolo::inline KOLO_ABI::shm {

/// Runs f(comm) in `ranks` processes forked from this one, and waits for all of them, without end if one hangs in code
/// of its own. Nothing else needs to be installed.
///
/// Returns 0 if every rank returned (0, if f returns an exit status: no bool and no floating-point number). Otherwise
/// it returns a non-zero exit status, after every rank has ended, and writes one line to standard error for each rank
/// that threw, died or returned something else. If the ranks that returned 0 have continued without the others by
/// `shrink`, of this communicator or of another one, the lines are written and it returns 0. A rank that has continued
/// and then returns something else is a failure. Memory that f captured is each rank's own copy. The ranks end with the
/// calling thread. Start threads inside f, not before: fork copies the calling one only. Threads of OpenMP and of some
/// libraries (OpenBLAS) end here or are recreated in the ranks; other threads are an error, except that those of LLVM's
/// or Intel's OpenMP cannot be told from others.
/// A rank ends without running this program's exit handlers. Its stdio output is flushed. Data buffered in C++ streams
/// (an ofstream; std::cout after sync_with_stdio(false)) is not, and data buffered there before the call may be written
/// by every rank: flush them before it, and at the end of f.
/// Errors  invalid_argument: less than one rank, or other threads run; out_of_resources: no memory or no processes are
///         available.
template <class F>
int launch(int ranks, F f, const options& o = {}) {
  return detail::launch::launch_each<communicator>(ranks, o, &f, [](void* g, communicator& comm) {
    auto& body = *static_cast<F*>(g);
    using result = std::remove_cvref_t<decltype(body(comm))>;
    static_assert(std::is_void_v<result> || (std::is_convertible_v<result, int> && !std::is_same_v<result, bool> &&
                                             !std::is_floating_point_v<result>),
                  "kolo: the function that launch runs must return an exit status, an int, or nothing");
    if constexpr (std::is_void_v<result>) {
      return body(comm), 0;
    } else if constexpr (std::is_integral_v<result>) {
      const auto status = static_cast<long long>(body(comm));
      return status == int(status) ? int(status) : 1;
    } else {
      return int(body(comm));
    }
  });
}

/// The ranks that mpiexec, srun or torchrun started on this host, as the environment specifies; one rank if it does
/// not. Every rank calls it equally often, from one thread at a time; a failed call may be repeated, and does not
/// count. `KOLO_RANK` and `KOLO_SIZE` take precedence, `KOLO_JOB` names the job if wrappers hide the launcher. Jobs
/// that one script starts at the same time need a `KOLO_JOB` each, or with torchrun's variables a MASTER_PORT: without
/// it their ranks may meet each other.
/// Errors  invalid_argument: the environment contradicts itself, or the ranks are on several hosts; timeout: a rank did
///         not come; mismatch: the ranks differ in version, size or options.
template <std::same_as<communicator> Comm = communicator>
Comm world(const options& o = {});

/// Rank `rank` of `size` on this host, for processes that know their numbers and share a name, which no other process
/// of this user uses at the same time: their launcher has passed it to them, or a store. Environment variables do not
/// matter.
/// Errors  invalid_argument: no such rank, or no name; timeout, mismatch: as of `world`.
template <std::same_as<communicator> Comm = communicator>
Comm meet(int rank, int size, std::string_view name, const options& o = {});

/// Joins this process to a group of ranks on this host, when they call `comm.grow(meeting)`: as one more rank of the
/// communicator that this returns. It only needs the name of the meeting, which is private to this user; while no group
/// grows it waits for up to `o.timeout`, at next to no cost. The deadline of later operations and `ranks_per_node` are
/// the group's; `o.slot_bytes` and `o.checked` must equal theirs. After they have called it, it is there within
/// milliseconds. `kolo::broadcast_parameters` gives it their state.
/// Errors  timeout: no group has called `grow` there; mismatch: it, or another newcomer with it, has another version,
///         `slot_bytes` or `checked` than they have; peer_died and others: the failure that ended `grow` for the
///         members, if this newcomer had come already.
template <std::same_as<communicator> Comm = communicator>
Comm join(std::string_view meeting, const options& o = {});

/// Collective over `comm`, which may be of any kind: the ranks that share a node, by its placement, get a communicator
/// over shared memory, in the order of their ranks. Needs no environment variables; they meet at a name that no other
/// process can guess. Waits for all started operations on `comm`. Over MPI:
///
///     kolo::mpi::communicator comm{MPI_COMM_WORLD};
///     auto near = kolo::shm::node_communicator(comm);
///
/// Errors  invalid_argument: ranks placed on one node do not share a host; timeout: a rank did not come; mismatch:
///         ranks of a node differ in version or options; out_of_resources: a rank has no memory or descriptors for it.
///         They are the same on all ranks of `comm`, which remains usable unless it has failed itself.
communicator node_communicator(Communicator auto& comm, const options& o = {}) {
  return detail::launch::node_communicator_of(*comm.engine(), o);
}

}  // namespace kolo::inline KOLO_ABI::shm

#ifndef KOLO_DECLARES
#include <kolo/impl/launch.hpp>
#include <kolo/impl/node_communicator.hpp>
#endif

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as processes on one host, which share memory: started here by `launch`, found by `world` where a launcher
// started them, or among those of another communicator.
#pragma once

#include <kolo/shm/group.hpp>

#include <concepts>
#include <string_view>
#include <type_traits>

namespace kolo::inline KOLO_ABI::detail::launch {
/// `call(f, comm)`, which returns an exit status, in each process (impl/launch.hpp). (Templates, so that nothing of
/// them is compiled until they are called.)
template <class Comm>
int launch_each(int ranks, const kolo::shm::options& o, void* f, int (*call)(void* f, Comm& comm));
/// impl/node_communicator.hpp
template <class T>
kolo::shm::communicator node_communicator_of(execute::engine<T>& e, const kolo::shm::options& o);
}  // namespace kolo::inline KOLO_ABI::detail::launch

namespace kolo::inline KOLO_ABI::shm {

/// Runs f(comm) in `ranks` processes, which fork makes from this one, and waits for all of them, without end where one
/// hangs in code of its own. Nothing else needs to be installed.
///
/// Returns 0 when every rank returned (0, where f returns an exit status: no bool and no floating-point number).
/// Otherwise a non-zero exit status, after every rank has ended, and one line on standard error for each rank that
/// threw, died or returned something else. Those lines are all where the ranks that returned 0 have gone on without the
/// others by `shrink`, of what they were given or of a part of it: then it is 0. A rank that has gone on and then
/// returns something else is a failure. Memory that f captured is each rank's own copy. The ranks end with the calling
/// thread. Start threads inside f, not before: fork copies the calling one only. OpenMP's, and some libraries'
/// (OpenBLAS), end here or are made anew in the ranks; with others it is refused, but where OpenMP is LLVM's or
/// Intel's, whose threads cannot be told from others.
/// A rank ends without running this program's exit handlers. What it wrote to stdio is flushed. What C++ streams hold
/// themselves (an ofstream; std::cout after sync_with_stdio(false)) is not, and what they held before the call may be
/// written by every rank: flush them before it, and at the end of f.
/// Errors  invalid_argument: less than one rank, or other threads run; out_of_resources: memory or processes are not to
///         be had.
template <class F>
int launch(int ranks, F f, const options& o = {}) {
  return detail::launch::launch_each<communicator>(ranks, o, &f, [](void* g, communicator& comm) {
    auto& body = *static_cast<F*>(g);
    using result = std::remove_cvref_t<decltype(body(comm))>;
    static_assert(!std::is_same_v<result, bool> && !std::is_floating_point_v<result>,
                  "kolo: what launch runs returns an exit status, an int, or nothing");
    if constexpr (std::is_convertible_v<result, int>) return static_cast<int>(body(comm));
    else return body(comm), 0;
  });
}

/// The ranks that mpiexec, srun or torchrun started on this host, as the environment says; one rank where it says
/// nothing. Every rank calls it equally often, from one thread at a time; one that did not come about may be tried
/// again, and does not count. `KOLO_RANK` and `KOLO_SIZE` overrule, `KOLO_JOB` names the job where
/// wrappers hide the launcher. Jobs that one script starts at the same time want a `KOLO_JOB` each, or with torchrun's
/// variables a MASTER_PORT: without it their ranks may meet each other.
/// Errors  invalid_argument: the environment contradicts itself, or the ranks are on several hosts; timeout: somebody
///         did not come; mismatch: the ranks differ in version, size or options.
template <std::same_as<communicator> Comm = communicator>
Comm world(const options& o = {});

/// Rank `rank` of `size` on this host, for processes that know who they are and have a name in common, which nobody
/// else of this user uses at the same time: whoever started them has told them, or a store of theirs. Environment
/// variables do not matter.
/// Errors  invalid_argument: no such rank, or no name; timeout, mismatch: as of `world`.
template <std::same_as<communicator> Comm = communicator>
Comm meet(int rank, int size, std::string_view name, const options& o = {});

/// A process that comes to a group of ranks on this host, when they call `comm.grow(meeting)`: one rank more of
/// what that returns. It needs nothing but the name of the meeting, which is one of this user's; where none is
/// growing it waits as long as `o.timeout` says, and costs next to nothing. The deadline of later
/// operations and the groups that stand for nodes are the group's; `o.slot_bytes` and `o.checked` must be. Once
/// they have called it, it is there within milliseconds. `kolo::broadcast_parameters` gives it their state.
/// Errors  timeout: nobody has called `grow` there; mismatch: it, or another newcomer with it, has another version,
///         `slot_bytes` or `checked` than they have; peer_died and others: what has ended `grow` for the members, where
///         this one had come already.
template <std::same_as<communicator> Comm = communicator>
Comm join(std::string_view meeting, const options& o = {});

/// Collective over `comm`, which may be of any kind: the ranks that share a node, by its placement, get a communicator
/// over shared memory, in the order of their ranks. Without environment variables; they meet at a place that nobody
/// else can guess. What was started on `comm` before is waited for. Over MPI:
///
///     kolo::mpi::communicator comm{MPI_COMM_WORLD};
///     auto near = kolo::shm::node_communicator(comm);
///
/// Errors  invalid_argument: ranks that are said to share a node do not share a host; timeout: somebody did not come;
///         mismatch: neighbours differ in version or options; out_of_resources: a rank has no memory or descriptors for
///         it. They are the same on all ranks of `comm`, which can still be used unless it is what failed.
template <Communicator C>
communicator node_communicator(C& comm, const options& o = {}) {
  return detail::launch::node_communicator_of(*comm.engine(), o);
}

}  // namespace kolo::inline KOLO_ABI::shm

#ifndef KOLO_DECLARES
#include <kolo/impl/launch.hpp>
#include <kolo/impl/node_communicator.hpp>
#endif

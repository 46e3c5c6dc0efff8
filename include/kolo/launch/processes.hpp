// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as processes on one host, which share memory: started here by `launch`, found by `world` where a launcher started them, or among those
// of another communicator.
#pragma once

#include <kolo/execute/communicator.hpp>
#include <kolo/launch/environment.hpp>
#include <kolo/launch/rendezvous.hpp>
#include <kolo/launch/spawn.hpp>
#include <kolo/shm/node_group.hpp>
#include <kolo/shm/slot_transport.hpp>

#include <optional>

namespace kolo::inline KOLO_ABI::shm {

using transport = slot_transport<shared_mapping>;
using communicator = kolo::communicator<transport>;

using options = group_options;

namespace detail {

/// What the ranks of one launch have in common; they get it by fork.
template <class F>
struct launching {
  shared_mapping memory;
  kolo::detail::region_shape shape;
  std::uint64_t region, notes;  ///< the latter: has rank r gone on without others? A byte each
  F& f;

  int run(int rank) {
    communicator comm{memory, region, shape, rank};
    const auto unsaid = comm.engine()->unsaid;
    int status = 0;
    if constexpr (std::is_convertible_v<decltype(f(comm)), int>) status = f(comm);
    else f(comm);
    if (comm.engine() && comm.transport().went_on()) note(rank).get()[rank] = std::byte{1};
    if (status == 0) unsaid->say();
    return status;
  }
  std::shared_ptr<std::byte> note(int rank) { return memory.map(notes, static_cast<std::size_t>(rank) + 1); }
};

/// Rank `rank` of `size` on this host, who meet under that name.
inline transport meet(int rank, int size, std::string name, const options& o, std::chrono::nanoseconds timeout) {
  const kolo::detail::region_shape shape{size, o};
  const auto prepare = [&](shared_mapping& memory, const std::vector<process_id>& members) {
    const auto region = transport::initialise(memory, shape);
    transport::introduce(memory, region, shape, members);
    return region;
  };
  if (size == 1) {
    shared_mapping memory;
    const auto region = prepare(memory, {this_process()});
    return {memory, region, shape, 0};
  }
  const kolo::detail::rendezvous_options rendezvous_options{
      .rank = rank,
      .size = size,
      .name = std::move(name),
      .timeout = timeout,
      .terms = {{"slot_bytes", static_cast<std::int64_t>(o.slot_bytes)},
                {"checked", o.checked || kolo::detail::is_checked_by_environment()},
                {"ranks_per_node", o.ranks_per_node},
                {"timeout", o.timeout.count()}}};
  const auto met = kolo::detail::rendezvous(rendezvous_options, prepare);
  return {met.memory, met.region, shape, rank};
}

/// Collective over `all`, for `operation`.
template <Transport T>
transport meet_neighbours(T& all, const options& o, const char* operation) {
  const kolo::detail::neighbourhood here{all, operation};
  std::optional<transport> made;
  kolo::detail::report mine{};
  try {
    made.emplace(meet(here.number(), here.size(), here.rendezvous_name(), o, std::min(o.timeout, all.timeout())));
  } catch (const error& e) {
    mine = {true, e.cause()};
  }
  here.compare(all, mine);
  return *std::move(made);
}

}  // namespace detail

/// Runs f(comm) in `ranks` processes, which fork makes from this one, and waits for all of them. Nothing else needs to be installed.
///
/// Returns 0 when every rank returned (0, where f returns an int). Otherwise a non-zero exit status, after every rank has ended,
/// and one line on standard error for each rank that threw, died or returned something else. Those lines are all where the ranks that returned 0
/// have gone on without the others by `shrink`, each on the communicator that it was given: then it is 0. A rank that has gone on and then returns something else is a failure.
/// Memory that f captured is each rank's own copy. The ranks end with the calling thread.
/// Start threads inside f, not before: fork copies the calling one only. OpenMP's are ended here, and come back when they are needed; with others it is refused.
/// A rank ends without running this program's exit handlers; what it wrote to stdio is flushed.
/// Errors  invalid_argument: less than one rank, or other threads run; out_of_resources: memory or processes are not to be had.
template <class F>
int launch(int ranks, F f, const options& o = {}) {
  if (ranks < 1)
    throw error{errc::invalid_argument, "at least one rank must be launched, not " + std::to_string(ranks)};
  detail::launching<F> common{shared_mapping{}, {ranks, o}, 0, 0, f};
  common.region = transport::initialise(common.memory, common.shape);
  common.notes = common.memory.reserve(static_cast<std::size_t>(ranks));
  return kolo::detail::spawn(
      ranks, [](void* c, int rank) { return static_cast<detail::launching<F>*>(c)->run(rank); }, &common,
      [](void* c, int rank) {
        auto& l = *static_cast<detail::launching<F>*>(c);
        transport::announce_death(l.memory, l.region, l.shape, rank);
      },
      [](void* c, int rank) { return static_cast<detail::launching<F>*>(c)->note(rank).get()[rank] == std::byte{1}; });
}

/// The ranks that mpiexec, srun or torchrun started on this host, as the environment says; one rank where it says nothing. Every rank
/// calls it equally often. `KOLO_RANK` and `KOLO_SIZE` overrule, `KOLO_JOB` names the job where wrappers hide the launcher.
/// Errors  invalid_argument: the environment contradicts itself, or the ranks are on several hosts; timeout: somebody did not come;
///         mismatch: the ranks differ in version, size or options.
inline communicator world(const options& o = {}) {
  const auto me = from_environment();
  if (me.local_size != me.size)
    throw error{errc::invalid_argument, "shm::world reaches one host, and " + me.launcher + " started " +
                                            std::to_string(me.size) + " ranks, of which " +
                                            std::to_string(me.local_size) + " on this one"};
  auto name = me.size == 1 ? std::string{} : kolo::detail::next_rendezvous(kolo::detail::job_name(me));
  return communicator{detail::meet(me.rank, me.size, std::move(name), o, o.timeout)};
}

/// Collective over `comm`, which may be of any kind: the ranks that share a node, by its placement, get a communicator over shared memory, in the order
/// of their ranks. Without environment variables; they meet at a place that nobody else can guess. What was started on `comm` before is waited for.
/// Over MPI, `kolo::mpi::communicator comm{MPI_COMM_WORLD}; auto near = kolo::shm::among_neighbours(comm);`
/// Errors, the same on all ranks of `comm`, which can still be used unless it is what failed
///         invalid_argument: ranks that are said to share a node do not share a host; timeout: somebody did not come; mismatch: neighbours
///         differ in version or options; out_of_resources: a rank has no memory or descriptors for it.
template <Communicator C>
communicator among_neighbours(C& comm, const options& o = {}) {
  comm.engine()->finish_all();
  return communicator{detail::meet_neighbours(comm.transport(), o, "among_neighbours")};
}

}  // namespace kolo::inline KOLO_ABI::shm

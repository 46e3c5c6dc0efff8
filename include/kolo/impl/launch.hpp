// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks are started (launch/threads.hpp, launch/processes.hpp).
#pragma once

#include <kolo/core/joined_threads.hpp>
#include <kolo/impl/communicator.hpp>
#include <kolo/impl/grow.hpp>
#include <kolo/launch/environment.hpp>
#include <kolo/launch/join.hpp>
#include <kolo/launch/meet.hpp>
#include <kolo/launch/processes.hpp>
#include <kolo/launch/rethrow_cause.hpp>
#include <kolo/launch/spawn.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/shm/slot_transport.hpp>

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::launch {

template <class Comm>
void run_each(int ranks, const threads::options& o, void* f, void (*call)(void* f, Comm& comm)) {
  if (ranks < 1) core::throw_error(errc::invalid_argument, {"threads::run needs at least one rank, not ", ranks});
  const shm::region_shape shape{ranks, o};
  shm::private_mapping memory;
  const auto region = Comm::transport_type::initialise(memory, shape);
  os::eventcount::take_remote_fences();  // sooner than the threads, since it is quick now
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
  const auto does_not_come = [&](int rank, std::exception_ptr why) {  // no rank waits for it
    thrown[std::size_t(rank)] = std::move(why);
    Comm::transport_type::announce_death(memory, region, shape, rank);
  };
  const auto run_as = [&](int rank) {
    bool has_come = false;
    try {
      Comm comm{memory, region, shape, rank};
      has_come = true;
      const auto unreported = comm.engine()->unreported;
      call(f, comm);
      unreported->throw_if_any();  // what its calls have not
    } catch (...) {
      if (!has_come) return does_not_come(rank, std::current_exception());
      thrown[std::size_t(rank)] = std::current_exception();
    }
  };
  {
    core::joined_threads all;
    int rank = 0;
    try {
      for (; rank < ranks; ++rank) all.start(run_as, rank);
    } catch (const std::exception& e) {
      const auto why = std::make_exception_ptr(
          error{errc::out_of_resources, core::text_of({"rank ", rank, " of ", ranks, " was not started: ", e.what()})});
      for (; rank < ranks; ++rank) does_not_come(rank, why);
    }
  }
  rethrow_cause(thrown);
}

/// The common state of the ranks of one launch; they get it by fork.
template <class Comm>
struct launching {
  shm::shared_mapping memory;
  shm::region_shape shape;
  std::uint64_t region, survivors;  ///< survivors: whether rank r continued without others, a byte each
  void* f;
  int (*call)(void* f, Comm& comm);

  int run(int rank) {
    const auto unreported = core::shared<transport::unreported_failure>();
    transport::unreported_failure::of_this_rank() = unreported;  // not those of the parent
    Comm comm{memory, region, shape, rank};
    const int status = call(f, comm);
    if (unreported->recovered) survivor(rank).get()[rank] = std::byte{1};
    if (status == 0) unreported->throw_if_any();
    return status;
  }
  std::shared_ptr<std::byte> survivor(int rank) { return memory.map(survivors, std::size_t(rank) + 1); }
};

template <class Comm>
int launch_each(int ranks, const kolo::shm::options& o, void* f, int (*call)(void* f, Comm& comm)) {
  if (ranks < 1) core::throw_error(errc::invalid_argument, {"at least one rank must be launched, not ", ranks});
  using transport = typename Comm::transport_type;
  using common_to_all = launching<Comm>;
  common_to_all common{shm::shared_mapping{}, {ranks, o}, 0, 0, f, call};
  common.region = transport::initialise(common.memory, common.shape);
  common.survivors = common.memory.reserve(std::size_t(ranks));
  return spawn(
      ranks, [](void* c, int rank) { return static_cast<common_to_all*>(c)->run(rank); }, &common,
      [](void* c, int rank) {
        auto& l = *static_cast<common_to_all*>(c);
        transport::announce_death(l.memory, l.region, l.shape, rank);
      },
      [](void* c, int rank) { return static_cast<common_to_all*>(c)->survivor(rank).get()[rank] == std::byte{1}; });
}

}  // namespace kolo::inline KOLO_ABI::detail::launch

namespace kolo::inline KOLO_ABI::shm {

template <std::same_as<communicator> Comm>
Comm world(const options& o) {
  const auto me = from_environment();
  if (me.local_size != me.size)
    throw error{errc::invalid_argument, "shm::world reaches one host, and " + me.launcher + " started " +
                                            std::to_string(me.size) + " ranks, of which " +
                                            std::to_string(me.local_size) + " on this one"};
  auto& count = detail::launch::rendezvous_count;
  auto name = me.size == 1 ? std::string{} : detail::launch::job_name(me) + '/' + std::to_string(count);
  return Comm{detail::launch::meet<typename Comm::transport_type>(me.rank, me.size, std::move(name), o, o.timeout,
                                                                  detail::launch::progress_only, &count)};
}

template <std::same_as<communicator> Comm>
Comm meet(int rank, int size, std::string_view name, const options& o) {
  if (rank < 0 || rank >= size || name.empty())
    throw error{errc::invalid_argument, "meet takes a name, and a rank that is one of the ranks: rank " +
                                            std::to_string(rank) + " of " + std::to_string(size) + " as \"" +
                                            std::string{name} + "\" is none"};
  auto job = detail::launch::job_name({}, name) + "/meet";  // no name of `world` or `grow`
  return Comm{detail::launch::meet<typename Comm::transport_type>(rank, size, std::move(job), o, o.timeout)};
}

template <std::same_as<communicator> Comm>
Comm join(std::string_view meeting, const options& o) {
  return Comm{detail::launch::join<detail::shm::shared_mapping>(meeting, o)};
}

}  // namespace kolo::inline KOLO_ABI::shm

namespace kolo::inline KOLO_ABI::threads {

template <std::same_as<communicator> Comm>
Comm join(std::string_view meeting, const options& o) {
  return Comm{detail::launch::join<detail::shm::private_mapping>(meeting, o)};
}

}  // namespace kolo::inline KOLO_ABI::threads

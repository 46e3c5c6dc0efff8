// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shrink, for ranks as processes: kill -9 before, in and after it, in each round of a call and at each step of the agreement.
#include <kolo/observe/counted.hpp>

#include <sys/resource.h>

#include <atomic>
#include <optional>

#include "laws/shrink_laws.hpp"
#include "processes/in_each_round.hpp"
#include "support/ending_memory.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

/// The new rank of `rank` after one or two others were lost.
int rank_without(int rank, int first_lost, int second_lost = 99) {
  return rank - (rank > first_lost ? 1 : 0) - (rank > second_lost ? 1 : 0);
}

/// The process ends when `uses_left` uses of its memory have passed.
using killed_memory = ending_memory<kolo::detail::shm::shared_mapping, die>;

/// Whether the rank `victim` is killed at use number `use` of its memory in `shrink`. The others get a communicator of the remaining ranks in either case.
bool is_killed_at(int use, int p, int victim) {
  using comm_type = kolo::communicator<kolo::detail::shm::slot_transport<killed_memory>>;
  const kolo::detail::shm::region_shape shape{p, {.timeout = 60s}};
  killed_memory memory;
  const auto region = comm_type::transport_type::initialise(memory, shape);
  const auto end = on_processes(p, [&](auto& outer) -> std::string {
    comm_type comm{memory, region, shape, outer.rank()};
    (void)end_of([&] { kolo::barrier(outer); });
    if (comm.rank() == victim) killed_memory::uses_left = use;
    auto rest = comm.shrink();
    if (comm.rank() == victim) killed_memory::uses_left = -1;
    if (end_of([&] { kolo::barrier(rest); }) != "fine") {  // it was killed after all ranks had arrived
      auto again = rest.shrink();
      return laws::is_whole(again, rank_without(comm.rank(), victim), p - 1);
    }
    return laws::is_whole(rest, rest.size() == p ? comm.rank() : rank_without(comm.rank(), victim), rest.size());
  });
  INFO("use " << use << " of rank " << victim << " of " << p << ": " << end.errors);
  CHECK(end.clean);
  CHECK(end.status == 0);
  const bool died = end.said[std::size_t(victim)] == "nothing";
  CHECK(end.said == (died ? all_but(victim, p, "") : all_say(p, "")));
  return died;
}

/// A rank is killed in a call; the others shrink and make the same call.
template <class S>
void continues(const S& schedule, int p, int victim, int round) {
  const auto end = on_processes(p, [&](auto& whole) -> std::string {
    kolo::communicator<dying_messages> comm{std::move(whole.transport())};
    kolo::inject_fault(comm, {.what = kolo::fault_kind::kill, .rank = victim, .round = round});
    const auto first = end_of([&] {
      any_call(comm, schedule, each_part);
      kolo::barrier(comm);
    });
    auto rest = comm.shrink();
    if (kolo::supports(schedule, rest.size())) any_call(rest, schedule, each_part);
    return first + laws::is_whole(rest, rank_without(comm.rank(), victim), p - 1);
  });
  INFO("rank " << victim << " of " << p << ", round " << round << ": " << end.errors);
  CHECK(end.said == all_but(victim, p, "peer died " + std::to_string(victim)));
  CHECK(end.clean);
}

template <class S>
void continues_after_each_round(const S& schedule) {
  for (int p = 2; p <= 4; ++p)
    for (const int victim : std::set<int>{0, p - 1})
      for (int k = 0; k < schedule.rounds(p); ++k)
        if (takes_part(schedule, victim, p, k)) continues(schedule, p, victim, k);
}

}  // namespace

TEST_CASE("shrink: the laws hold for processes") {
  const auto holds = [](auto law) {
    for (const int p : {1, 2, 3, 4, 8}) {
      const auto end = on_processes(p, law);
      CHECK(end.said == all_say(p, ""));
      CHECK(end.status == 0);
      CHECK(end.clean);
    }
  };
  holds(laws::shrinking_without_loss_keeps_all);
  holds(laws::shrinking_leaves_out_who_left);
  holds(laws::shrinking_calls_those_who_wait);
  holds(laws::shrinking_happens_once);
}

TEST_CASE("shrink: a rank is killed in each round of a call, and the others make the call again without it") {
  continues_after_each_round(kolo::ring::allreduce{});
  continues_after_each_round(kolo::binomial::broadcast{});
}

TEST_CASE("shrink: a rank is killed at each step of the agreement") {
  for (int p = 2; p <= 4; ++p)
    for (const int victim : std::set<int>{0, 1, p - 1}) {
      int use = 1;
      while (is_killed_at(use, p, victim)) ++use;
      CHECK(use >= 4);
    }
}

TEST_CASE("shrink: a rank is killed that already waits in shrink") {
  struct moment {
    std::atomic<pid_t> victim;
  };
  for (int p = 3; p <= 4; ++p) {
    common<moment> at;
    const auto end = on_processes(p, [&](auto& comm) -> std::string {
      if (comm.rank() == 0) at->victim = ::getpid();
      if (comm.rank() == p - 1) {  // the last to arrive: nothing is agreed before
        while (at->victim == 0) ::sched_yield();
        ::usleep(30'000);  // the victim usually waits by then; the result does not depend on it
        ::kill(at->victim, SIGKILL);
      }
      auto rest = comm.shrink();
      return laws::is_whole(rest, comm.rank() - 1, p - 1);
    });
    CHECK(end.said == all_but(0, p, ""));
    CHECK(end.status == 0);
    CHECK(end.errors == "kolo: rank 0 was killed by signal 9 (Killed)\n");
    CHECK(end.clean);
  }
}

TEST_CASE("shrink: ranks are killed one after another, until one is left") {
  const auto end = on_processes(4, [&](auto& comm) -> std::string {
    const int number = comm.rank();
    for (int lost = 0; lost < 3; ++lost) {
      (void)end_of([&] { kolo::barrier(comm); });
      if (number == 3 - lost) die();
      if (const auto first = end_of([&] {
            for (;;) kolo::barrier(comm);
          });
          first != "peer died " + std::to_string(3 - lost))
        return first;
      comm = comm.shrink();
      if (const auto wrong = laws::is_whole(comm, number, 3 - lost); !wrong.empty()) return wrong;
    }
    return "alone";
  });
  CHECK(end.said == std::vector<std::string>{"alone", "nothing", "nothing", "nothing"});
  CHECK(end.status == 0);
  CHECK(end.clean);
}

TEST_CASE("shrink: a stopped rank is left out, and gets an error when it continues") {
  common<std::atomic<pid_t>> stopped;
  const common<std::atomic<int>> begun;
  const auto end = on_processes(3, [&](auto& comm) -> std::string {
    kolo::barrier(comm);
    for (++*begun; *begun < 3;) ::sched_yield();
    if (comm.rank() == 1) {
      *stopped = ::getpid();
      ::raise(SIGSTOP);
      return end_of([&] { comm.shrink(); });
    }
    while (*stopped == 0) ::sched_yield();
    wait_until_stopped(*stopped);
    const auto first = end_of([&] { kolo::barrier(comm, {.timeout = 300ms}); });
    auto rest = comm.shrink({.timeout = 3s});
    auto said = first + laws::is_whole(rest, comm.rank() / 2, 2);
    if (comm.rank() == 0) ::kill(*stopped, SIGCONT);
    return said;
  });
  CHECK(end.said[0].starts_with("timeout "));
  CHECK(end.said == std::vector<std::string>{end.said[0], "timeout 1", end.said[0]});
  CHECK(end.clean);
}

TEST_CASE("shrink: launch returns an error if no rank shrinks after a death, or if a rank fails after shrink") {
  const auto status = [](auto then) {
    return on_processes(3,
                        [&](auto& comm) -> std::string {
                          if (comm.rank() == 2) die();
                          const auto first = end_of([&] { kolo::barrier(comm); });
                          return first + then(comm);
                        })
        .status;
  };
  CHECK(status([](auto&) { return ""; }) == 128 + SIGKILL);
  CHECK(status([](auto& comm) { return comm.shrink(), ""; }) == 0);
  CHECK(status([](auto& comm) {
          auto mine = std::move(comm);
          mine = mine.shrink();
          return "";
        }) == 0);
  CHECK(kolo::shm::launch(3, [&](auto& comm) {
          if (comm.rank() == 2) die();
          (void)end_of([&] { kolo::barrier(comm); });
          auto rest = comm.shrink();
          (void)end_of([&] { comm.shrink(); });  // refused: it was called before
          kolo::barrier(rest);
        }) == 0);
  common<std::atomic<int>> have_parts;
  const auto shrink_part = [&](auto make) {
    *have_parts = 0;
    return kolo::shm::launch(3, [&](auto& comm) {
      auto part = make(comm);
      if (comm.rank() < 2) ++*have_parts;
      while (*have_parts < 2) ::sched_yield();
      if (comm.rank() == 2) die();
      (void)end_of([&] { kolo::barrier(part); });
      part = part.shrink();
    });
  };
  CHECK(shrink_part([](auto& comm) { return comm.split(0, 0); }) == 0);
  CHECK(shrink_part([](auto& comm) {
          return kolo::communicator<kolo::counted<kolo::shm::transport>>{comm.transport().split(0, 0)};
        }) == 0);
  CHECK(kolo::shm::launch(3, [](auto& comm) {
          if (comm.rank() == 2) die();
          (void)end_of([&] { kolo::barrier(comm); });
          comm = comm.shrink();
          return comm.rank() == 1 ? 5 : 0;
        }) != 0);
  CHECK(status([](auto& comm) { return comm.rank() == 0 ? comm.shrink({.timeout = 100ms}), "" : ""; }) ==
        128 + SIGKILL);
  CHECK(status([](auto& comm) {
          const rlimit no_room{4096, 4096};
          ::setrlimit(RLIMIT_FSIZE, &no_room);
          return end_of([&] { comm.shrink(); });
        }) == 128 + SIGKILL);
}

TEST_CASE("shrink: a rank's request on another communicator progresses while it waits in shrink") {
  const auto said = on_threads(3, [](auto& comm) -> std::string {
    auto two = comm.split(comm.rank() == 2, 0);
    if (comm.rank() == 2) return "2 6";  // leaves
    std::vector<int> x(1 << 20, 3);
    auto request = kolo::start_allreduce(two, x, kolo::sum);
    if (comm.rank() == 1) request.wait();
    auto rest = comm.shrink({.timeout = 20s});
    request.wait();
    return std::to_string(rest.size()) + ' ' + std::to_string(x.back());
  });
  CHECK(said == all_say(3, "2 6"));
}

TEST_CASE("shrink: a failure found by a request's destructor does not remain after shrink") {
  const common<std::atomic<int>> started;
  const auto end = on_processes(3, [&](auto& comm) -> std::string {
    while (comm.rank() == 2 && *started < 2) ::sched_yield();  // a start after the first failure is refused
    if (comm.rank() == 2) die();
    std::vector<int> x(100'000);
    {
      const auto dropped = kolo::start_allreduce(comm, x, kolo::sum);
      ++*started;
    }
    comm = comm.shrink();
    return end_of([&] { kolo::barrier(comm); });
  });
  CHECK(end.said == all_but(2, 3, "fine"));
  CHECK(end.status == 0);
}

TEST_CASE("shrink: a failure found by the destructor of a request on another communicator is recovered") {
  for (const bool before : {true, false}) {
    const common<std::atomic<int>> started;
    const auto end = on_processes(3, [&](auto& comm) -> std::string {
      auto other = comm.split(0, comm.rank());
      while (comm.rank() == 2 && *started < 2) ::sched_yield();
      if (comm.rank() == 2) die();
      int x[10]{}, y[10]{};
      auto dropped = std::optional{kolo::start_allreduce(other, x, kolo::sum)};
      ++*started;
      const auto said = end_of([&] { kolo::allreduce(comm, y, kolo::sum); });
      if (before) dropped.reset();
      comm = comm.shrink();
      return said + ", then " + end_of([&] { kolo::barrier(comm); });
    });
    CHECK(end.said == all_but(2, 3, "peer died 2, then fine"));
    CHECK(end.status == 0);
  }
}

TEST_CASE("shrink: a failure on another communicator that the lost rank has not caused is reported at the end") {
  const auto end = on_processes(3, [](auto& comm) -> std::string {
    auto two = comm.split(comm.rank() == 2, 0);
    if (comm.rank() == 2) die();
    int x[10]{}, y[10]{};
    { const auto dropped = kolo::start_allreduce(two, std::span{x}.first(comm.rank() == 0 ? 10 : 5), kolo::sum); }
    const auto said = end_of([&] { kolo::allreduce(comm, y, kolo::sum); });
    comm = comm.shrink();
    return said + ", then " + end_of([&] { kolo::barrier(comm); });
  });
  CHECK(end.said == all_but(2, 3, "peer died 2, then fine"));
  CHECK(end.status != 0);
}

TEST_CASE("shrink: the group's heap memory does not change, and the new group addresses it") {
  const auto end = on_processes(3, [&](auto& comm) -> std::string {
    const kolo::shm::allocator<int> shared{comm};
    std::vector<int, kolo::shm::allocator<int>> x(20'000, comm.rank(), shared);
    (void)end_of([&] { kolo::barrier(comm); });
    if (comm.rank() == 0) die();
    auto rest = comm.shrink();
    kolo::allreduce(rest, x, kolo::sum);
    return std::to_string(x.back()) + (kolo::shm::heap(rest) == kolo::shm::heap(comm) ? " same" : " other");
  });
  CHECK(end.said == all_but(0, 3, "3 same"));
  CHECK(end.clean);
}

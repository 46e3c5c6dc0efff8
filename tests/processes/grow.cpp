// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// grow, for ranks as processes: newcomers that arrive, are late, have other options or are killed; members that are killed or stopped.
#include <kolo/launch/join.hpp>

#include <atomic>

#include "laws/grow_laws.hpp"
#include "laws/shrink_laws.hpp"
#include "processes/what_ranks_say.hpp"

#include "support/catch.hpp"
#include "support/ending_memory.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

std::string place_of(const std::string& meeting) {
  return kolo::detail::launch::meeting_place<kolo::detail::shm::shared_mapping>(meeting);
}

/// A process that joins. Its result is that of f(comm), followed by its error.
template <class F>
child joining(const std::string& meeting, F f, const kolo::shm::options& o = {.timeout = 60s}) {
  return child{[&, o] {
    std::string said;
    const auto end = words_of([&] {
      auto comm = kolo::shm::join(meeting, o);
      said = f(comm);
    });
    return said + end;
  }};
}
child joining(const std::string& meeting) {
  return joining(meeting, [](auto& comm) { return laws::works_after_growing(comm, -1, comm.size()); });
}

/// A process that is admitted at the rendezvous, and then calls `then(met)` instead of joining.
template <class F>
child arrives_only(const std::string& meeting, F then) {
  namespace launch = kolo::detail::launch;
  return child{[&, then] {
    const launch::rendezvous_options me{.rank = launch::newcomer,
                                        .size = 0,
                                        .name = place_of(meeting),
                                        .timeout = 60s,
                                        .terms = launch::terms_of(0, false),
                                        .is_growing = true};
    auto met = launch::rendezvous_at(
        me, launch::rendezvous_clock::now(), [](auto) { return launch::admission{}; },
        [](launch::admission a) { return a; });
    return then(met);
  }};
}

/// The process ends when `uses_left` uses of its memory have passed.
using killed_memory = ending_memory<kolo::detail::shm::shared_mapping, die>;
using killed_comm = kolo::communicator<kolo::detail::shm::slot_transport<killed_memory>>;

/// Whether the member `victim` is killed at use number `use` of its memory in `grow`. All others get the same result, and continue without it.
bool is_killed_at(int use, int p, int victim) {
  const auto meeting = laws::fresh_meeting();
  const kolo::detail::shm::region_shape shape{p, {.timeout = 60s}};
  killed_memory memory;
  const auto region = killed_comm::transport_type::initialise(memory, shape);
  child newcomer{[&]() -> std::string {
    const auto end = end_of([&] {
      killed_comm comm{kolo::detail::launch::join<killed_memory>(meeting, {.timeout = 60s})};
      kolo::barrier(comm);
    });
    return end;
  }};
  const auto end = on_processes(p, [&](auto& outer) -> std::string {
    killed_comm comm{memory, region, shape, outer.rank()};
    (void)end_of([&] { kolo::barrier(outer); });
    if (comm.rank() == victim) killed_memory::uses_left = use;
    const auto said = end_of([&] {
      auto more = comm.grow(meeting, {.timeout = 30s});
      killed_memory::uses_left = -1;
      kolo::barrier(more);
    });
    if (said == "fine") return said;
    auto rest = comm.shrink();
    return said + laws::is_whole(rest, comm.rank() - (comm.rank() > victim ? 1 : 0), p - 1);
  });
  CHECK(end.status == 0);
  const bool died = end.said[std::size_t(victim)] == "nothing";
  INFO("use " << use << " of member " << victim << " of " << p << ": " << end.errors);
  const auto lost = "peer died " + std::to_string(victim);
  CHECK(end.said == (died ? all_but(victim, p, lost) : all_say(p, "fine")));
  CHECK(end.no_process_left);
  if (!died) CHECK(newcomer.result() == "fine");  // else it waits as a spare, or has got an error
  return died;
}

}  // namespace

TEST_CASE("grow: newcomers arrive, and all ranks work together") {
  for (const auto& [members, newcomers] : {std::pair{1, 1}, {3, 1}, {2, 2}}) {
    const auto meeting = laws::fresh_meeting();
    std::vector<child> all;
    for (int n = 0; n < newcomers; ++n) all.push_back(joining(meeting));
    const int come = newcomers, in_all = members + newcomers;
    const auto end = on_processes(members, [&](auto& comm) {
      auto more = comm.grow(meeting, {.timeout = 60s, .newcomers = come});
      return laws::works_after_growing(more, comm.rank(), in_all) + laws::is_whole(comm, comm.rank(), comm.size());
    });
    CHECK(end.said == all_say(members, ""));
    CHECK(end.status == 0);
    for (child& c : all) CHECK(c.result() == "");
    CHECK(end.clean);
  }
}

TEST_CASE("grow: repeated, after shrink, and with newcomers that waited from the start") {
  const auto meeting = laws::fresh_meeting();
  const auto stays = [&](auto& comm) -> std::string {  // until there are four ranks
    while (comm.size() < 4) comm = comm.grow(meeting, {.timeout = 60s});
    return laws::works_after_growing(comm, -1, 4);
  };
  auto first = joining(meeting, stays), second = joining(meeting, stays);
  const auto end = on_processes(3, [&](auto& comm) -> std::string {
    (void)end_of([&] { kolo::barrier(comm); });
    if (comm.rank() == 1) die();
    comm = comm.shrink();
    return stays(comm);
  });
  CHECK(end.said == all_but(1, 3, ""));
  CHECK(end.status == 0);
  CHECK(first.result() == "");
  CHECK(second.result() == "");
  CHECK(end.clean);
}

TEST_CASE("grow: a member's request on another communicator progresses while grow waits for a newcomer that needs it") {
  const auto meeting = laws::fresh_meeting();
  const auto said = on_threads(3, [&](auto& comm) -> std::string {
    const int r = comm.rank();
    auto members = comm.split(r == 2, r), others = comm.split(r == 1, r);
    std::vector<int> x(1 << 20, 3);
    std::optional<decltype(kolo::start_allreduce(others, x, kolo::sum))> request;
    if (r != 1) request.emplace(kolo::start_allreduce(others, x, kolo::sum));
    if (r == 2) request->wait();
    const auto more = r == 2 ? kolo::threads::join(meeting, {.timeout = 60s}) : members.grow(meeting, {.timeout = 20s});
    if (r == 0) request->wait();
    return std::to_string(more.size());
  });
  CHECK(said == all_say(3, "3"));
}

TEST_CASE("grow: all members get an error if no newcomer arrives, and their group remains usable") {
  const auto meeting = laws::fresh_meeting();
  const auto end = on_processes(3, [&](auto& comm) {
    return words_of([&] { comm.grow(meeting, {.timeout = 50ms}); }) + laws::is_whole(comm, comm.rank(), 3);
  });
  for (std::size_t r = 0; r < 3; ++r) {
    INFO(end.said[r]);
    CHECK(end.said[r].starts_with("kolo: grow, rank " + std::to_string(r) + ": nobody came to join within "));
    CHECK(end.said[r].ends_with(" s"));
  }
  CHECK(end.clean);
}

TEST_CASE("grow: join gets an error if no group grows under that name") {
  CHECK(joining(laws::fresh_meeting(), [](auto&) { return "joined"; }, {.timeout = 50ms}).result() ==
        "kolo: rendezvous, no group of ranks has grown under that name within 0.050 s");
}

TEST_CASE("grow: a newcomer is killed before it arrives: all members get an error, and the next newcomer joins") {
  const auto meeting = laws::fresh_meeting();
  common<std::atomic<int>> is_over;
  auto victim = arrives_only(meeting, [](auto&) -> std::string { die(); });
  child next{[&] {
    while (*is_over == 0) ::sched_yield();
    auto comm = kolo::shm::join(meeting, {.timeout = 60s});
    return laws::works_after_growing(comm, 3, 4);
  }};
  const auto end = on_processes(3, [&](auto& comm) {
    const auto since = std::chrono::steady_clock::now();
    const auto first = words_of([&] { comm.grow(meeting, {.timeout = 60s}); });
    const bool at_once = std::chrono::steady_clock::now() - since < 20s;
    *is_over = 1;
    auto more = comm.grow(meeting, {.timeout = 60s});
    return first + (at_once ? "" : ", late") + laws::works_after_growing(more, comm.rank(), 4);
  });
  for (std::size_t r = 0; r < 3; ++r)
    CHECK(end.said[r] ==
          "kolo: grow, rank " + std::to_string(r) + ": rank 3, which was to join, was lost before it had come");
  CHECK(victim.result() == "signal 9");
  CHECK(next.result() == "");
  CHECK(end.clean);
}

TEST_CASE("grow: one of two newcomers is killed before it arrives: the other one gets an error") {
  const auto meeting = laws::fresh_meeting();
  auto victim = arrives_only(meeting, [](auto&) -> std::string { die(); });
  auto other = joining(meeting);
  const auto end = on_processes(2, [&](auto& comm) {
    return end_of([&] { comm.grow(meeting, {.timeout = 60s, .newcomers = 2}); }).substr(0, 9) +
           laws::is_whole(comm, comm.rank(), 2);
  });
  CHECK(end.said == all_say(2, "peer died"));
  CHECK(other.result().find("which was to join, was lost before it had come") != std::string::npos);
  CHECK(end.clean);
}

TEST_CASE("grow: a newcomer that is stopped on the way is a timeout, and gets an error when it continues") {
  const auto meeting = laws::fresh_meeting();
  common<std::atomic<pid_t>> stopped;
  auto late = arrives_only(meeting, [&](auto& met) {
    *stopped = ::getpid();
    ::raise(SIGSTOP);
    auto offer = *kolo::detail::launch::offered_region<kolo::detail::shm::shared_mapping>::taken(met);
    const auto shape = kolo::detail::shm::head_of(offer.first.map(offer.second, 4096).get()).shape;
    kolo::shm::communicator comm{kolo::shm::transport{offer.first, offer.second, shape, met.rank}};
    return words_of([&] { comm.transport().await_confirmation({.operation = "join", .timeout = 60s}); });
  });
  const auto end = on_processes(2, [&](auto& comm) {
    std::string said;
    const auto has_come_within = [&](std::chrono::nanoseconds timeout) {
      std::string words;
      said = end_of([&] {
        try {
          comm.grow(meeting, {.timeout = timeout});
        } catch (const kolo::error& e) {
          words = e.what();
          throw;
        }
      });
      return words.find("nobody came") == words.npos;
    };
    if (!has_come_within(300ms)) has_come_within(10s);  // the newcomer has not run for so long
    kolo::barrier(comm);
    if (comm.rank() == 0) {
      while (*stopped == 0) ::sched_yield();
      wait_until_stopped(*stopped);
      ::kill(*stopped, SIGCONT);
    }
    return said + laws::is_whole(comm, comm.rank(), 2);
  });
  CHECK(end.said == all_say(2, "timeout 2"));
  CHECK(late.result().find("rank 2, which was to join, has not come within ") != std::string::npos);
  CHECK(end.clean);
}

TEST_CASE("grow: a member is killed while newcomers are awaited: the others get an error, and a spare joins them") {
  const auto meeting = laws::fresh_meeting();
  for (const int victim : {0, 2}) {
    auto spare = joining(meeting, [](auto& comm) { return laws::works_after_growing(comm, 2, 3); });
    const auto end = on_processes(3, [&](auto& comm) {
      const auto first = end_of([&] {
        if (comm.rank() == victim) {  // the others wait for it or for newcomers, of which there are too few
          std::thread{[] { ::usleep(50'000), die(); }}.detach();
        }
        comm.grow(meeting, {.timeout = 60s, .newcomers = 5});
      });
      comm = comm.shrink();
      comm = comm.grow(meeting, {.timeout = 60s});
      return first + laws::works_after_growing(comm, -1, 3);
    });
    CHECK(end.said == all_but(victim, 3, "peer died " + std::to_string(victim)));
    CHECK(end.status == 0);
    CHECK(spare.result() == "");
    CHECK(end.clean);
  }
}

TEST_CASE("grow: rank 0 is stopped while it awaits newcomers: the other members grow without it, by its spare") {
  const auto meeting = laws::fresh_meeting();
  common<std::array<std::atomic<pid_t>, 4>> members;
  const common<std::atomic<int>> have_failed;
  auto spare = joining(meeting, [](auto& comm) { return laws::works_after_growing(comm, 2, 3); }, {.timeout = 20s});
  child stopper{[&] {
    while (!kolo::detail::launch::connect_to(place_of(meeting))) ::sched_yield();
    ::kill((*members)[0], SIGSTOP);
    ::kill((*members)[3], SIGKILL);
    return "";
  }};
  const auto end = on_processes(4, [&](auto& comm) {
    const int rank = comm.rank();
    (*members)[static_cast<std::size_t>(rank)] = ::getpid();
    const auto first = end_of([&] { comm.grow(meeting, {.timeout = 60s, .newcomers = 5}); });
    if (rank == 0) return first;
    for (++*have_failed; *have_failed < 2;) ::sched_yield();
    const auto second = end_of([&] {
      comm = comm.shrink({.timeout = 1s});
      comm = comm.grow(meeting, {.timeout = 10s});
    });
    ::kill((*members)[0], SIGCONT);
    return first + ", " + (second == "fine" ? laws::works_after_growing(comm, rank - 1, 3) : second);
  });
  CHECK(end.said == std::vector<std::string>{"peer died 3", "peer died 3, ", "peer died 3, ", "nothing"});
  CHECK(spare.result() == "");
  CHECK(end.clean);
}

TEST_CASE("grow: a process that holds the meeting's address and does not answer is skipped") {
  const auto meeting = laws::fresh_meeting();
  const auto holds = kolo::detail::launch::listen_at(place_of(meeting));
  const auto end = on_processes(2, [&](auto& comm) { return words_of([&] { comm.grow(meeting, {.timeout = 4s}); }); });
  for (const auto& said : end.said) CHECK(said.find("nobody came to join within") != std::string::npos);
}

TEST_CASE("grow: a child that rank 0 forks while it awaits newcomers does not hold the meeting's address") {
  const auto meeting = laws::fresh_meeting();
  common<std::atomic<int>> step;
  const auto joins_at = [&](int when, auto then) {
    return child{[&, when, then] {
      while (*step < when) ::sched_yield();
      auto comm = kolo::shm::join(meeting, {.timeout = 20s});
      return then(comm);
    }};
  };
  const auto grows = [&](auto& comm) {
    const auto said = end_of([&] { comm = comm.grow(meeting, {.timeout = 10s}); });
    return said == "fine" ? laws::works_after_growing(comm, -1, 3) : said;
  };
  auto first = joins_at(1, grows),
       second = joins_at(2, [](auto&comm) { return laws::works_after_growing(comm, 2, 3); });
  const auto end = on_processes(1, [&](auto& comm) {
    std::atomic<bool> is_over{false};
    std::jthread forks{[&] {
      while (!kolo::detail::launch::connect_to(place_of(meeting))) ::sched_yield();
      const child copy{[]() -> std::string {
        for (;;) ::pause();
      }};
      *step = 1;
      is_over.wait(false);
    }};
    comm = comm.grow(meeting, {.timeout = 20s});
    *step = 2;
    const auto said = grows(comm);
    is_over = true;
    is_over.notify_all();
    return said;
  });
  CHECK(end.said == all_say(1, ""));
  CHECK(first.result() == "");
  CHECK(second.result() == "");
}

TEST_CASE("grow: a child forked by another group's rank 0, which has ended, does not keep newcomers from this group") {
  const auto meeting = laws::fresh_meeting();
  common<std::atomic<int>> step;
  child gone{[&] {
    const auto listener = kolo::detail::launch::listen_at(place_of(meeting));
    if (::fork() == 0) {
      while (*step < 2) ::usleep(1000);
      ::_exit(0);
    }
    *step = 1;
    return "";
  }};
  while (*step < 1) ::sched_yield();
  auto newcomer = joining(meeting, [](auto& comm) { return laws::works_after_growing(comm, 1, 2); }, {.timeout = 20s});
  const auto end = on_processes(1, [&](auto& comm) {
    const auto said = end_of([&] { comm = comm.grow(meeting, {.timeout = 10s}); });
    return said == "fine" ? laws::works_after_growing(comm, -1, 2) : said;
  });
  *step = 2;
  CHECK(end.said == all_say(1, ""));
  CHECK(newcomer.result() == "");
  CHECK(gone.result() == "");
}

TEST_CASE("grow: a member is killed at each step") {
  for (int p = 2; p <= 3; ++p)
    for (const int victim : std::set<int>{0, p - 1}) {
      int use = 1;
      while (is_killed_at(use, p, victim)) ++use;
      CHECK(use >= 2);
    }
}

TEST_CASE("grow: a newcomer with different options is refused, and both sides get the error") {
  const auto meeting = laws::fresh_meeting();
  const auto refused = [&](const kolo::shm::options& o, const std::string& why) {
    auto newcomer = joining(
        meeting, [](auto&) { return "joined"; }, o);
    const auto end = on_processes(2, [&](auto& comm) {
      return words_of([&] { comm.grow(meeting, {.timeout = 60s}); }) + laws::is_whole(comm, comm.rank(), 2);
    });
    CHECK(end.said == std::vector<std::string>{"kolo: grow, rank 0: " + why, "kolo: grow, rank 1: " + why});
    CHECK(newcomer.result() == "kolo: rendezvous, " + why);
  };
  refused({.timeout = 60s, .slot_bytes = 1024}, "a newcomer was given slot_bytes 1024, rank 0 0");
  refused({.timeout = 60s, .checked = true}, "a newcomer was given checked 1, rank 0 0");
}

TEST_CASE("grow: a newcomer takes over the group's options that it does not set") {
  const auto meeting = laws::fresh_meeting();
  auto newcomer = joining(meeting, [](auto& comm) {
    return std::to_string(comm.node_count()) + ' ' + std::to_string(comm.transport().timeout() / 1s);
  });
  const auto end = on_processes(4, [&](auto& comm) { return std::to_string(comm.grow(meeting).node_count()); },
                                {.timeout = 77s, .ranks_per_node = 2});
  CHECK(end.said == all_say(4, "3"));
  CHECK(newcomer.result() == "3 77");
}

TEST_CASE("grow: the group's heap memory does not change, and the new group addresses it") {
  const auto meeting = laws::fresh_meeting();
  const auto sum = [](auto& comm, const auto& memory) {
    std::vector<int, kolo::shm::allocator<int>> x(20'000, comm.rank() + 1, memory);
    kolo::allreduce(comm, x, kolo::sum);
    return std::to_string(x.back());
  };
  auto newcomer = joining(meeting, [&](auto& comm) { return sum(comm, kolo::shm::allocator<int>{comm}); });
  const auto end = on_processes(2, [&](auto& comm) {
    const kolo::shm::allocator<int> memory{comm};
    auto more = comm.grow(meeting, {.timeout = 60s});
    return sum(more, memory) + (kolo::shm::heap(more) == kolo::shm::heap(comm) ? " same" : " other");
  });
  CHECK(end.said == all_say(2, "6 same"));
  CHECK(newcomer.result() == "6");
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A timeout names the rank that all others wait for in the end, which is stopped or stuck anywhere in a call, and not the neighbour that was polled last.
#include <kolo/kolo.hpp>

#include <atomic>
#include <latch>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using namespace std::chrono_literals;
using sign = kolo::detail::transport::sign_of_life;

namespace {

int late(std::vector<sign> of, int first) { return kolo::detail::transport::who_is_late(of, first); }

/// f(call) for calls with different patterns of waits.
template <class F>
void every_way(F f) {
  f([](auto& comm, auto& x, auto o) { kolo::allreduce(comm, x, o, kolo::ring{}); });
  f([](auto& comm, auto& x, auto o) { kolo::allreduce(comm, x, o, kolo::one_shot{}); });
  f([](auto& comm, auto& x, auto o) { kolo::allreduce(comm, x, o, kolo::two_shot{}); });
  f([](auto& comm, auto& x, auto o) { kolo::allreduce(comm, x, o, kolo::recursive_doubling{}); });
  f([](auto& comm, auto& x, auto o) {
    kolo::reduce(comm, x, x, o, 0, kolo::chain{}), kolo::broadcast(comm, x, 0, kolo::chain{});
  });
}

void wait_until_stopped(pid_t process) {
  while (!kolo::detail::os::is_stopped({process})) ::sched_yield();
}

}  // namespace

TEST_CASE("who_is_late follows the waits to the last rank") {
  const sign done{}, busy{sign::busy, -1, 5}, stopped{sign::stopped, -1, 7}, silent{sign::silent, 0, 3};
  const auto waits = [](int r) { return sign{sign::waiting, r, 9}; };
  CHECK(late({waits(1), busy}, 1) == 1);
  CHECK(late({waits(1), waits(2), waits(3), busy}, 1) == 3);
  CHECK(late({waits(1), waits(2), silent, done}, 1) == 2);
  CHECK(late({waits(1), waits(2), busy, {sign::busy, -1, 1}}, 1) == 2);
  CHECK(late({waits(1), waits(2), waits(1), busy}, 1) == 3);  // a cycle names no rank
  CHECK(late({waits(1), waits(0), silent, busy}, 1) == 2);    // has not polled for longer
  CHECK(late({waits(1), waits(0), silent, stopped}, 1) == 3);
  CHECK(late({waits(1), silent, stopped, done}, 1) == 2);  // a silent rank may be computing
  CHECK(late({waits(1), busy, stopped, done}, 1) == 1);
  CHECK(late({waits(1), done, silent, done}, 1) == 2);
  CHECK(late({waits(1), waits(0), done}, 1) == kolo::detail::transport::not_known);
  CHECK(late({waits(1), waits(77), done}, 1) == kolo::detail::transport::not_known);  // a corrupt recorder
  CHECK(late({waits(-1)}, -1) == kolo::detail::transport::not_known);
}

TEST_CASE("a timeout names the cycle in which all ranks wait") {
  const sign done{};
  const auto waits = [](int r) { return sign{sign::waiting, r, 9}; };
  const auto says = [](std::vector<sign> of, int first) {
    return kolo::detail::transport::sentence_about_late(of, -1, first, 1s);
  };
  const std::string rank_1 = "rank 1 has not done its part within 1.000 s, and it waits itself, as all do: ";
  CHECK(says({waits(1), waits(0), done}, 1) == rank_1 + "rank 0 waits for rank 1, which waits for rank 0");
  CHECK(says({waits(1), waits(3), waits(3), waits(2)}, 1) ==
        rank_1 + "rank 2 waits for rank 3, which waits for rank 2");
  CHECK(says({waits(1), waits(2), waits(0)}, 1) ==
        rank_1 + "rank 1 waits for rank 2, which waits for rank 0, which waits for rank 1");
  CHECK(says({waits(1), waits(2), done}, 1) == rank_1 + "who is late is not known");
  CHECK(says({waits(1), waits(77), done}, 1) == rank_1 + "who is late is not known");
  CHECK(kolo::detail::transport::sentence_about_late(std::vector{waits(1), waits(0)}, -1, 1, 1s,
                                                     "; it has begun no operation") ==
        "rank 1 has not done its part within 1.000 s; it has begun no operation, and it waits itself, as all do: "
        "rank 1 waits for rank 0, which waits for rank 1");
}

TEST_CASE("a thread that is stuck in its operator is named by all ranks, also by those that wait for others") {
  every_way([](auto call) {
    constexpr int p = 5, stuck = 3;
    std::atomic<bool> given_up{false};
    const auto said = on_threads(p,
                                 [&](auto& comm) {
                                   std::vector<int> x(500);
                                   const auto op = [&, wait = comm.rank() == stuck](int a, int b) {
                                     if (wait) given_up.wait(false);
                                     return a + b;
                                   };
                                   kolo::barrier(comm, {.timeout = 60s});
                                   const auto end = end_of([&] { call(comm, x, op), kolo::barrier(comm); });
                                   if (comm.rank() != stuck && end != "fine") given_up = true, given_up.notify_all();
                                   return end;
                                 },
                                 {.timeout = 150ms});
    CHECK(said == all_say(p, "timeout 3"));
  });
}

TEST_CASE("a process that is stopped while it waits is named by all ranks") {
  every_way([](auto call) {
    constexpr int p = 5, victim = 2, last = 4;
    common<std::atomic<pid_t>> process;
    const auto end = on_processes(p,
                                  [&](auto& comm) {
                                    std::vector<int> x(500);
                                    if (comm.rank() == victim) *process = ::getpid();
                                    kolo::barrier(comm, {.timeout = 60s});
                                    if (comm.rank() == last) {  // keeps the others waiting until the victim waits too
                                      while (comm.transport().recorder(victim)->last().peer < 0) ::sched_yield();
                                      ::kill(*process, SIGSTOP);
                                      wait_until_stopped(*process);
                                    }
                                    const auto said = words_of([&] { call(comm, x, kolo::sum), kolo::barrier(comm); });
                                    ::kill(*process, SIGCONT);
                                    return said;
                                  },
                                  {.timeout = 150ms});
    CHECK(end.said == all_say(p, end.said[0]));
    CHECK(end.said[0].find(": rank 2 is late: ") != std::string::npos);
    CHECK(end.said[0].find("; its process is stopped; its last operation: ") != std::string::npos);
    CHECK(end.clean);
  });
}

TEST_CASE("a process that was stopped itself does not report the ranks that waited for it") {
  common<std::atomic<pid_t>> process;
  const auto end = on_processes(2, [&](auto& comm) {
    const auto clock = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
    int x[2]{};
    kolo::barrier(comm, {.timeout = 60s});
    if (comm.rank() == 1) {
      return end_of([&] {
        auto request = kolo::start_allreduce(comm, x, kolo::sum, {.timeout = 150ms});
        request.test();
        *process = ::getpid();
        ::raise(SIGSTOP);
        request.wait();
      });
    }
    while (*process == 0) ::sched_yield();
    wait_until_stopped(*process);
    for (const auto late = clock() + 300'000'000; clock() < late;) ::sched_yield();
    const auto woken = clock();
    ::kill(*process, SIGCONT);
    while (comm.transport().recorder(1)->last_poll() < woken && !comm.transport().failed()) ::sched_yield();
    return end_of([&] { kolo::allreduce(comm, x, kolo::sum); });
  });
  CHECK(end.said == all_say(2, "fine"));
}

TEST_CASE("a rank that waits on another communicator is not named as the late rank of this one") {
  const auto said = on_threads(3, [](auto& comm) {
    constexpr int late = 2;
    std::vector<int> x(300);
    auto pair = comm.split(comm.rank() == late, 0);
    return end_of([&] {
      if (comm.rank() == late)
        while (!comm.transport().failed()) ::sched_yield();
      auto sum = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{}, {.timeout = 150ms});
      if (comm.rank() == 0) kolo::barrier(pair);
      sum.wait();
      kolo::barrier(pair);
    });
  });
  CHECK(said[1] == "timeout 2");
}

TEST_CASE("if all ranks wait, none is named") {
  const auto said_within = [](std::chrono::milliseconds timeout) {
    std::latch given_up{2};
    return on_threads(2, [&](auto& comm) {
      kolo::barrier(comm, {.timeout = 60s});
      const auto words = words_of([&] {  // each waits for the other, in a call of which the transport has no record
        const kolo::wait_context s{.operation = "law", .sequence = 0, .peer = 1 - comm.rank(), .timeout = timeout};
        for (kolo::backoff p;;) comm.transport().relax(p, s);
      });
      given_up.arrive_and_wait();
      return words;
    });
  };
  const auto names_a_circle = [](const std::string& words) {
    const std::string all = "; its last operation: barrier #1, which has ended there, and it waits itself, as all do: ";
    return words.find(all + "rank 0 waits for rank 1, which waits for rank 0") != words.npos ||
           words.find(all + "rank 1 waits for rank 0, which waits for rank 1") != words.npos;
  };
  std::vector<std::string> said{""};
  for (auto timeout = 300ms; !names_a_circle(said[0]) && timeout < 10s; timeout *= 4) said = said_within(timeout);
  CHECK(said == all_say(2, said[0]));
  CHECK(names_a_circle(said[0]));
}

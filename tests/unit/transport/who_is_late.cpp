// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A timeout names the rank that all others wait for in the end, which is stopped or stuck anywhere in a call, and not the neighbour that was polled last.
#include <kolo/kolo.hpp>
#include <kolo/point_to_point.hpp>

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
  f([](auto& comm, auto& x, auto o, auto t) { kolo::allreduce(comm, x, o, kolo::ring{}, t); });
  f([](auto& comm, auto& x, auto o, auto t) { kolo::allreduce(comm, x, o, kolo::one_shot{}, t); });
  f([](auto& comm, auto& x, auto o, auto t) { kolo::allreduce(comm, x, o, kolo::two_shot{}, t); });
  f([](auto& comm, auto& x, auto o, auto t) { kolo::allreduce(comm, x, o, kolo::recursive_doubling{}, t); });
  f([](auto& comm, auto& x, auto o, auto t) {
    kolo::reduce(comm, x, x, o, 0, kolo::chain{}, t), kolo::broadcast(comm, x, 0, kolo::chain{}, t);
  });
}

/// The first result of run(timeout) that `is_right`, or that with the longest timeout: on a busy machine any rank may be late, and it is then named.
template <class Run, class Right>
auto with_patience(Run run, Right is_right) {
  auto timeout = 150ms;
  auto said = run(timeout);
  while (!is_right(said) && timeout < 2s) said = run(timeout *= 4);
  return said;
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
  const auto needs = [](int r) { return sign{sign::waiting, r, 9, true}; };
  CHECK(late({needs(1), needs(0), busy}, 1) == kolo::detail::transport::not_known);  // these two are enough
  CHECK(late({needs(1), waits(0), busy}, 1) == 2);
  CHECK(late({needs(1), needs(2), busy}, 1) == 2);
}

TEST_CASE("a timeout names the cycle in which all ranks wait") {
  const sign done{};
  const auto waits = [](int r) { return sign{sign::waiting, r, 9}; };
  const auto says = [](std::vector<sign> of, int first) {
    return kolo::detail::transport::sentence_about_late(of, -1, first, 1s);
  };
  const std::string rank_1 = "rank 1 has not done its part within 1.000 s, and it waits itself: ";
  CHECK(says({waits(1), waits(0), done}, 1) == rank_1 + "rank 0 waits for rank 1, which waits for rank 0");
  CHECK(says({waits(1), waits(3), waits(3), waits(2)}, 1) ==
        rank_1 + "rank 2 waits for rank 3, which waits for rank 2");
  CHECK(says({waits(1), waits(2), waits(0)}, 1) ==
        rank_1 + "rank 1 waits for rank 2, which waits for rank 0, which waits for rank 1");
  CHECK(says({waits(1), waits(2), done}, 1) == rank_1 + "who is late is not known");
  CHECK(says({waits(1), waits(77), done}, 1) == rank_1 + "who is late is not known");
  CHECK(kolo::detail::transport::sentence_about_late(std::vector{waits(1), waits(0)}, -1, 1, 1s,
                                                     "; it has begun no operation") ==
        "rank 1 has not done its part within 1.000 s; it has begun no operation, and it waits itself: "
        "rank 1 waits for rank 0, which waits for rank 1");
}

TEST_CASE("a thread that is stuck in its operator is named by all ranks, also by those that wait for others") {
  every_way([](auto call) {
    constexpr int p = 5, stuck = 3, asks = 1;  // whose deadline passes: it waits for others than the stuck rank
    const auto said_within = [&](std::chrono::milliseconds timeout) {
      std::atomic<bool> given_up{false};
      return on_threads(p, [&](auto& comm) {
        std::vector<int> x(500);
        const auto op = [&, wait = comm.rank() == stuck](int a, int b) {
          if (wait) given_up.wait(false);
          return a + b;
        };
        const kolo::threads::communicator::options its{.timeout = comm.rank() == asks ? timeout : 60s};
        kolo::barrier(comm);
        const auto end = end_of([&] { call(comm, x, op, its), kolo::barrier(comm, its); });
        if (comm.rank() != stuck && end != "fine") given_up = true, given_up.notify_all();
        return end;
      });
    };
    const auto right = all_say(p, "timeout 3");
    CHECK(with_patience(said_within, [&](const auto& said) { return said == right; }) == right);
  });
}

TEST_CASE("a process that is stopped while it waits is named by all ranks") {
  every_way([](auto call) {
    constexpr int p = 5, victim = 2, last = 4, asks = 0;
    const auto end_within = [&](std::chrono::milliseconds timeout) {
      common<std::atomic<pid_t>> process;
      return on_processes(p, [&](auto& comm) {
        std::vector<int> x(500);
        if (comm.rank() == victim) *process = ::getpid();
        const kolo::shm::communicator::options its{.timeout = comm.rank() == asks ? timeout : 60s};
        if (comm.rank() == last) {  // keeps the others waiting until the victim waits too
          while (!comm.transport().recorder(victim)->last().waits() && !comm.transport().failed()) ::sched_yield();
          if (*process != 0) {  // else it has not come within the time
            ::kill(*process, SIGSTOP);
            wait_until_stopped(*process);
          }
        }
        const auto said = words_of([&] { call(comm, x, kolo::sum, its), kolo::barrier(comm, its); });
        if (*process != 0) ::kill(*process, SIGCONT);
        return said;
      });
    };
    const auto is_named = [](const launch_result& end) {
      return end.said == all_say(p, end.said[0]) && end.said[0].find(": rank 2 is late: ") != std::string::npos &&
             end.said[0].find("; its process is stopped; its last operation: ") != std::string::npos;
    };
    const auto end = with_patience(end_within, is_named);
    INFO(end.said[0]);
    CHECK(is_named(end));
    CHECK(end.clean);
  });
}

TEST_CASE("a process that was stopped itself does not report the ranks that waited for it") {
  const auto said_within = [](std::chrono::milliseconds timeout) {
    common<std::atomic<pid_t>> process;
    const auto end = on_processes(2, [&](auto& comm) {
      const auto clock = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
      int x[2]{};
      kolo::barrier(comm);
      if (comm.rank() == 1) {
        return end_of([&] {
          auto request = kolo::start_allreduce(comm, x, kolo::sum, {.timeout = timeout});
          request.test();
          *process = ::getpid();
          ::raise(SIGSTOP);
          request.wait();
        });
      }
      while (*process == 0) ::sched_yield();
      wait_until_stopped(*process);
      for (const auto late = clock() + 2 * timeout; clock() < late;) ::sched_yield();
      const auto woken = std::chrono::nanoseconds{clock()}.count();
      ::kill(*process, SIGCONT);
      while (comm.transport().recorder(1)->last_poll() < woken && !comm.transport().failed()) ::sched_yield();
      return end_of([&] { kolo::allreduce(comm, x, kolo::sum); });
    });
    return end.said;
  };
  const auto right = all_say(2, "fine");
  CHECK(with_patience(said_within, [&](const auto& said) { return said == right; }) == right);
}

TEST_CASE("a rank that waits on another communicator is not named as the late rank of this one") {
  const auto said_within = [](std::chrono::milliseconds timeout) {
    return on_threads(3, [&](auto& comm) {
      constexpr int late = 2;
      std::vector<int> x(300);
      auto pair = comm.split(comm.rank() == late, 0);
      return end_of([&] {
        if (comm.rank() == late)
          while (!comm.transport().failed()) ::sched_yield();
        auto sum = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{}, {.timeout = timeout});
        if (comm.rank() == 0) kolo::barrier(pair);
        sum.wait();
        kolo::barrier(pair);
      });
    })[1];
  };
  const auto is_right = [](const std::string& said) { return said == "timeout 2"; };
  CHECK(with_patience(said_within, is_right) == "timeout 2");
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
    const std::string all = "; its last operation: barrier #1, which has ended there, and it waits itself: ";
    return words.find(all + "rank 0 waits for rank 1, which waits for rank 0") != words.npos ||
           words.find(all + "rank 1 waits for rank 0, which waits for rank 1") != words.npos;
  };
  std::vector<std::string> said{""};
  for (auto timeout = 300ms; !names_a_circle(said[0]) && timeout < 10s; timeout *= 4) said = said_within(timeout);
  CHECK(said == all_say(2, said[0]));
  CHECK(names_a_circle(said[0]));
}

TEST_CASE("two ranks that receive from each other do not blame a third one, which has nothing to do with it") {
  const auto said_within = [](std::chrono::milliseconds timeout) {
    std::latch given_up{2};
    return on_threads(3, [&](auto& comm) {
      int x[1]{};
      if (comm.rank() == 2) return given_up.wait(), std::string{};
      const auto words = words_of([&] { kolo::receive(comm, x, 1 - comm.rank(), {.timeout = timeout}); });
      given_up.count_down();
      return words;
    })[0];
  };
  const auto names_a_circle = [](const std::string& words) {
    return words.find("it waits itself: rank ") != words.npos && words.find("rank 2") == words.npos;
  };
  std::string said;
  for (auto timeout = 300ms; !names_a_circle(said) && timeout < 10s; timeout *= 4) said = said_within(timeout);
  INFO(said);
  CHECK(names_a_circle(said));
}

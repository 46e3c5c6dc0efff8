// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kill -9 of one rank over TCP: the others get an error that names it within a second.
#include <atomic>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/tcp_threads.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

using clock_type = std::chrono::steady_clock;

/// When the victim died, by the clock that all processes of this host share.
using last_moment = std::atomic<clock_type::rep>;

[[noreturn]] void die(last_moment& at) {
  at = clock_type::now().time_since_epoch().count();
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

/// The results of p processes, each of them a rank.
template <class F>
std::vector<std::string> on_tcp_processes(int p, F f) {
  tcp::socket listener = tcp::listen_at("127.0.0.1:0");
  const std::string address = tcp::text(tcp::endpoint_of(listener));
  return in_children(p, [&](int rank) {
    tcp::communicator comm{address, rank, p, tcp::options{.timeout = 60s},
                           rank == 0 ? std::move(listener) : tcp::socket{}};
    return f(comm);
  });
}

/// A survivor's result: how the call and the next one end, and whether the first error was late.
template <class C, class F>
std::string survive(C& comm, const last_moment& at, F call) {
  const auto first = end_of(call);
  const bool soon = clock_type::now().time_since_epoch() - clock_type::duration{at.load()} < 1s;
  return first + (soon ? ", soon, " : ", late, ") + end_of([&] { kolo::barrier(comm); });
}

/// Runs `rank(comm, at)` on each rank; again if one was late: the machine may be busy for a second once, but not three times.
template <class F>
void expect_survival(int victim, int p, F rank) {
  std::vector<std::string> said;
  for (int again = 0; again < 3; ++again) {
    common<last_moment> at;
    said = on_tcp_processes(p, [&](auto& comm) { return rank(comm, *at); });
    if (std::none_of(said.begin(), said.end(), [](const auto& s) { return s.find("late") != s.npos; })) break;
  }
  const auto died = "peer died " + std::to_string(victim);
  CHECK(said == all_but(victim, p, died + ", soon, " + died, "signal 9"));
}

}  // namespace

TEST_CASE("own transport: a rank is killed before its first call, between two, and in the middle of one") {
  for (int p = 2; p <= 4; ++p)
    for (const int victim : std::set<int>{0, 1, p - 1})
      for (const std::size_t count : {10u, 2'000'000u}) {
        expect_survival(victim, p, [&](auto& comm, last_moment& at) {
          if (comm.rank() == victim) die(at);
          std::vector<int> x(count);
          return survive(comm, at, [&] { kolo::allreduce(comm, x, kolo::sum, kolo::ring{}); });
        });
        expect_survival(victim, p, [&](auto& comm, last_moment& at) {
          std::vector<int> x(count);
          int left = comm.rank() == victim ? 2 * static_cast<int>(count) : 0;  // elements until the kill
          const auto killing_operator = [&](int a, int b) {
            if (left > 0 && --left == 0) die(at);
            return a + b;
          };
          return survive(comm, at, [&] {
            for (;;) kolo::allreduce(comm, x, killing_operator, kolo::ring{});
          });
        });
      }
}

TEST_CASE("own transport: a rank is killed that no rank waits for") {
  common<std::atomic<bool>> is_heard;
  *is_heard = false;
  expect_survival(2, 3, [&](auto& comm, last_moment& at) {
    if (comm.rank() == 2) die(at);
    while (comm.rank() == 1 && !*is_heard) ::sched_yield();  // rank 1 computes
    int x = 0;
    const auto end = survive(comm, at, [&] { kolo::broadcast(comm, std::span{&x, 1}, 1, kolo::one_shot{}); });
    *is_heard = true;
    return end;
  });
}

TEST_CASE("own transport: a rank is killed after its last call: the others are not affected") {
  for (int p = 2; p <= 4; ++p)
    for (const int victim : std::set<int>{0, 1, p - 1}) {
      common<last_moment> at;
      const common<std::atomic<int>> ready;
      const auto said = on_tcp_processes(p, [&](auto& comm) {
        std::vector<int> x(50'000, 1);
        kolo::allreduce(comm, x, kolo::sum);
        kolo::barrier(comm);
        ++*ready;
        while (comm.rank() == victim && *ready < p) ::sched_yield();
        if (comm.rank() == victim) die(*at);
        return std::to_string(x[0]);
      });
      CHECK(said == all_but(victim, p, std::to_string(p), "signal 9"));
    }
}

TEST_CASE("own transport: a stopped rank is named after the timeout") {
  common<std::atomic<pid_t>> victim;
  const common<std::atomic<int>> begun, given_up;
  const auto said = on_tcp_processes(3, [&](auto& comm) -> std::string {
    kolo::barrier(comm);
    for (++*begun; *begun < 3;) ::sched_yield();
    if (comm.rank() == 1) {
      *victim = ::getpid();
      for (;;) ::pause();
    }
    while (*victim == 0) ::sched_yield();
    if (comm.rank() == 0) ::kill(*victim, SIGSTOP);
    int x = 0;
    const auto end = end_of([&] { kolo::broadcast(comm, std::span{&x, 1}, 1, kolo::one_shot{}, {.timeout = 200ms}); });
    const auto next = end_of([&] { kolo::barrier(comm); });
    for (++*given_up; *given_up < 2;) ::sched_yield();  // neither learns of the death
    if (comm.rank() == 0) ::kill(*victim, SIGKILL);
    return end + ", " + next;
  });
  CHECK(said == all_but(1, 3, "timeout 1, timeout 1", "signal 9"));
}

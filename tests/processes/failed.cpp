// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as processes that throw, leave, come late, disagree or refuse: the others hear of it, and launch says it once.
#include <stdexcept>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using namespace std::chrono_literals;

TEST_CASE("a rank throws: the others get peer_failed, and launch names it with its words") {
  for (int p = 2; p <= 4; ++p) {
    const auto end = on_processes(p, [&](auto& comm) {
      return end_and_next(comm, [&] {  // some may still be in the first barrier when rank 1 has left it
        kolo::barrier(comm);
        if (comm.rank() == 1) throw std::runtime_error("no more patience");
        kolo::barrier(comm);
      });
    });
    CHECK(end.said == all_but(1, p, "peer failed 1, then peer failed 1"));
    CHECK(end.status == 1);
    CHECK(end.errors == "kolo: rank 1: no more patience\n");
    CHECK(end.clean);
  }
}

TEST_CASE("what one rank's failure does to the others is reported behind it") {
  const auto end = on_processes(3, [&](auto& comm) {
    kolo::barrier(comm);
    if (comm.rank() == 2) throw std::runtime_error("the cause");
    kolo::barrier(comm);
    return std::string{};
  });
  CHECK(end.errors.starts_with("kolo: rank 2: the cause\n"));
  CHECK(end.status == 1);
  CHECK(end.clean);
}

TEST_CASE("a rank that leaves early is named") {
  const auto end = on_processes(3, [&](auto& comm) -> std::string {
    if (comm.rank() == 0) return "gone";
    std::vector<int> x(100'000);
    return end_and_next(comm, [&] { kolo::allreduce(comm, x, kolo::sum); });
  });
  CHECK(end.said == all_but(0, 3, "peer left 0, then peer left 0", "gone"));
  CHECK(end.clean);
}

TEST_CASE("a late rank is named, and hears it when it comes") {
  wire given_up;
  const auto end = on_processes(2, [&](auto& comm) {
    kolo::barrier(comm);
    if (comm.rank() == 1) given_up.hear();
    std::vector<int> x(100);
    const auto words = words_of([&] { kolo::allreduce(comm, x, kolo::sum, kolo::ring{}, {.timeout = 200ms}); });
    if (comm.rank() == 0) given_up.say("!");
    return words;
  });
  CHECK(end.said == all_say(2,
                            "kolo: allreduce #2, round 0, rank 0: rank 1 is late: nothing came from it within 0.200 s; "
                            "its last operation: barrier #1, which has ended there"));
  CHECK(end.clean);
}

TEST_CASE("a rank that is stopped is late, not dead") {
  common<std::atomic<pid_t>> stopped;
  const auto end = on_processes(2, [&](auto& comm) {
    kolo::barrier(comm);
    if (comm.rank() == 1) {
      *stopped = ::getpid();
      ::raise(SIGSTOP);
      return end_of([&] { kolo::barrier(comm); });
    }
    while (*stopped == 0) ::sched_yield();
    const auto said = end_of([&] { kolo::barrier(comm, {.timeout = 300ms}); });
    ::kill(*stopped, SIGCONT);
    return said;
  });
  CHECK(end.said == all_say(2, "timeout 1"));
  CHECK(end.clean);
}

TEST_CASE("processes that disagree hear it") {
  const auto end = on_processes(3, [&](auto& comm) {
    int x[5]{};
    return end_and_next(comm, [&] {
      if (comm.rank() == 1) kolo::allreduce(comm, x, kolo::max);
      else kolo::allreduce(comm, x, kolo::sum);
      kolo::barrier(comm);
    });
  });
  for (const auto& said : end.said) CHECK(said.starts_with("mismatch"));
  CHECK(end.said == all_say(3, end.said[0]));
  CHECK(end.clean);
}

TEST_CASE("a process that refuses its arguments tells the others") {
  const auto end = on_processes(3, [&](auto& comm) {
    std::vector<int> in(3), out(comm.rank() == 2 ? 4 : 3);
    return end_and_next(comm, [&] { kolo::allreduce(comm, in, out, kolo::sum); });
  });
  CHECK(end.said == all_but(2, 3, "peer failed 2, then peer failed 2", "invalid argument 2, then peer failed 2"));
  CHECK(end.clean);
}

TEST_CASE("a failure that only a request's destructor has found is the rank's, and launch says it") {
  const auto end = on_processes(2, [&](auto& comm) {
    std::vector<int> x(100);
    if (comm.rank() == 0) auto dropped = kolo::start_allreduce(comm, x, kolo::sum);
    return std::string{"fine"};
  });
  CHECK(end.said == all_say(2, "fine"));
  CHECK(end.status == 1);
  CHECK(
      end.errors.starts_with("kolo: rank 0 could not go on: allreduce #1, round 0, rank 0: rank 1 has destroyed its "
                             "communicator, and is still waited for"));
  CHECK(end.clean);
}

TEST_CASE("what a rank returns is what launch returns") {
  const auto status = [](int of_rank_1) {
    return on_processes(1,
                        [&](auto&) {
                          return std::to_string(
                              kolo::shm::launch(2, [&](auto& comm) { return comm.rank() == 1 ? of_rank_1 : 0; }));
                        })
        .said[0];
  };
  CHECK(status(0) == "0");
  CHECK(status(7) == "7");
}

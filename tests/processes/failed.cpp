// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as processes that throw, leave, are late, disagree or refuse arguments: the others get an error, and launch reports the cause once.
#include <kolo/impl/launch.hpp>

#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <tuple>

#include "processes/children.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace testing;
using namespace std::chrono_literals;

TEST_CASE("a rank throws: the others get peer_failed, and launch prints its rank and message") {
  for (int p = 2; p <= 4; ++p) {
    const auto end = on_processes(p, [&](auto& comm) {
      return end_and_next(comm, [&] {  // other ranks may still be in the first barrier when rank 1 has left it
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

TEST_CASE("launch prints the first failure before its consequences") {
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

TEST_CASE("a late rank is named by the others, and gets the error when it arrives") {
  wire given_up;
  const common<std::atomic<int>> begun;
  const auto end = on_processes(2, [&](auto& comm) {
    kolo::barrier(comm);
    for (++*begun; *begun < 2;) ::sched_yield();  // the barrier has ended on both
    if (comm.rank() == 1) given_up.hear();
    std::vector<int> x(100);
    const auto words = words_of([&] { kolo::allreduce(comm, x, kolo::sum, kolo::ring{}, {.timeout = 200ms}); });
    if (comm.rank() == 0) given_up.say("!");
    return words;
  });
  CHECK(end.said ==
        all_say(2,
                "kolo: allreduce #2, round 0, rank 0: rank 1 is late: it has not done its part within 0.200 s; "
                "its last operation: barrier #1, which has ended there"));
  CHECK(end.clean);
}

TEST_CASE("a stopped rank gives timeout, not peer_died") {
  common<std::atomic<pid_t>> stopped;
  const auto end = on_processes(2, [&](auto& comm) {
    kolo::barrier(comm);
    if (comm.rank() == 1) {
      *stopped = ::getpid();
      ::raise(SIGSTOP);
      return end_of([&] { kolo::barrier(comm); });
    }
    while (*stopped == 0) ::sched_yield();
    wait_until_stopped(*stopped);
    const auto said = end_of([&] { kolo::barrier(comm, {.timeout = 300ms}); });
    ::kill(*stopped, SIGCONT);
    return said;
  });
  CHECK(end.said == all_say(2, "timeout 1"));
  CHECK(end.clean);
}

TEST_CASE("a mismatch is thrown in all processes") {
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

TEST_CASE("a process with invalid arguments fails the others") {
  const auto end = on_processes(3, [&](auto& comm) {
    std::vector<int> in(3), out(comm.rank() == 2 ? 4 : 3);
    return end_and_next(comm, [&] { kolo::allreduce(comm, in, out, kolo::sum); });
  });
  CHECK(end.said == all_but(2, 3, "peer failed 2, then peer failed 2", "invalid argument 2, then peer failed 2"));
  CHECK(end.clean);
}

TEST_CASE("an invalid argument or a lack of resources of one rank in node_communicator fails all ranks at once") {
  const auto refused = on_processes(3, [](auto& comm) {
    return end_and_next(comm, [&] { kolo::shm::node_communicator(comm, {.timeout = comm.rank() == 1 ? 0s : 60s}); });
  });
  CHECK(refused.said == all_say(3, "invalid argument -1, then fine"));
  if (is_sanitized) return;  // exceptions need descriptors under a sanitizer
  for (const auto& [rank, left, what] : {std::tuple{1, 0, "reading the host's identity"},
                                         {0, 1, "making the rendezvous socket"},
                                         {1, 1, "making the rendezvous socket"}}) {
    const auto exhausted = on_processes(3, [rank = rank, left = left](auto& comm) {
      const int next = ::open("/dev/null", O_RDONLY);
      ::close(next);
      const rlimit few{rlim_t(next + left), rlim_t(next + left)};
      if (comm.rank() == rank) ::setrlimit(RLIMIT_NOFILE, &few);
      return words_of([&] { kolo::shm::node_communicator(comm); });
    });
    CHECK(exhausted.said == all_say(3, "kolo: rank " + std::to_string(rank) + ": " + what + ": Too many open files"));
  }
}

TEST_CASE("meet: the other ranks do not wait for a rank that cannot map their memory") {
  if (testing::is_sanitized) return;  // a sanitizer needs more address space than the limit allows
  const auto name = "failed/" + std::to_string(::getpid());
  const kolo::shm::options o{.timeout = 10s, .slot_bytes = 256 << 20};
  wire heard;
  child other{[&]() -> std::string {
    const rlimit little{1 << 30, 1 << 30};
    ::setrlimit(RLIMIT_AS, &little);
    const auto end = end_of([&] { kolo::shm::meet(1, 2, name, o); });
    heard.close_writer();
    heard.hear();  // until the other process has its error
    return end;
  }};
  CHECK(child{[&] {
          const auto end = end_of([&] {
            auto comm = kolo::shm::meet(0, 2, name, o);
            kolo::barrier(comm);
          });
          heard.close_writer();
          return end;
        }}.result() == "peer died 1");
  heard.close_writer();
  CHECK(other.result() == "out of resources -1");
}

TEST_CASE("a failure found by a request's destructor fails the rank, and launch prints it") {
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

namespace {

/// The constructor throws on rank 2.
struct throws_on_rank_2 : kolo::threads::communicator {
  template <class Memory, class Region, class Shape>
  throws_on_rank_2(Memory& memory, Region region, const Shape& shape, int rank)
      : kolo::threads::communicator{memory, region, shape, rank != 2 ? rank : throw std::bad_alloc{}} {}
};

const kolo::threads::options patient{.timeout = 60s};
std::string seconds_passed(std::chrono::steady_clock::time_point since) {
  return std::chrono::steady_clock::now() - since < 30s ? "at once" : "after the deadline";
}

}  // namespace

TEST_CASE("the other threads do not wait for one whose communicator cannot be made, and run throws its exception") {
  const auto before = std::chrono::steady_clock::now();
  std::atomic<int> heard = 0;
  const auto call = [](void* n, throws_on_rank_2& of_rank) {
    kolo::threads::communicator& comm = of_rank;
    try {
      kolo::barrier(comm);
    } catch (const kolo::error& e) {
      *static_cast<std::atomic<int>*>(n) += e.code() == kolo::errc::peer_died && e.peer() == 2;
      throw;
    }
  };
  CHECK_THROWS_AS(kolo::detail::launch::run_each<throws_on_rank_2>(4, patient, &heard, call), std::bad_alloc);
  CHECK(heard == 3);
  CHECK(seconds_passed(before) == "at once");
}

TEST_CASE("if not all threads can be started, the others fail at once, and the error says so") {
  const std::string said = child{[]() -> std::string {
                             if (::geteuid() != 0) return "no root";
                             const rlimit three{3, 3};  // of a user without threads: this thread and two more
                             const uid_t own = 100'000 + static_cast<uid_t>(::getpid());
                             if (::setrlimit(RLIMIT_NPROC, &three) != 0 || ::setresuid(own, own, own) != 0)
                               return "no root";
                             const auto before = std::chrono::steady_clock::now();
                             try {
                               kolo::threads::run(
                                   5, [](auto& comm) { kolo::barrier(comm); }, patient);
                               return "all were started";
                             } catch (const kolo::error& e) {
                               return (e.code() == kolo::errc::out_of_resources ? "" : "another error: ") +
                                      std::string{e.what()} + ", " + seconds_passed(before);
                             }
                           }}.result();
  if (said == "no root") {
    WARN("skipped without root: a limit on the number of threads");
    return;
  }
  CHECK(said == "kolo: rank 2 of 5 was not started: Resource temporarily unavailable, at once");
}

TEST_CASE("launch returns what a rank returns") {
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

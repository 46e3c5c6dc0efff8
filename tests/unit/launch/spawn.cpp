// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// spawn: how ranks end, what is reported, and what is left.
#include <kolo/launch/spawn.hpp>

#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "processes/children.hpp"
#include "support/catch.hpp"

namespace {

using testing::wire, testing::with_standard_error;
using body = std::function<int(int)>;
using death_handler = std::function<void(int)>;

int launch(
    int ranks, body f, death_handler on_death = [](int) {}) {
  std::pair<body, death_handler> both{std::move(f), std::move(on_death)};
  return kolo::detail::launch::spawn(
      ranks, [](void* context, int rank) { return static_cast<decltype(both)*>(context)->first(rank); }, &both,
      [](void* context, int rank) { static_cast<decltype(both)*>(context)->second(rank); });
}

/// The status, and whether this process has children left.
std::string all_gone(int status) {
  const bool none = ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
  return std::to_string(status) + (none ? " none left" : " some left");
}

/// An object that the ranks and the test share.
template <class T>
std::shared_ptr<T> shared_by_all() {
  auto memory =
      kolo::detail::shm::map_pages(kolo::detail::shm::whole_pages(sizeof(T)), MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return {memory, ::new (memory.get()) T{}};
}

}  // namespace

TEST_CASE("every rank runs once, in a process of its own") {
  struct seen {
    std::atomic<int> runs[9]{};
    std::atomic<pid_t> pids[9]{};
  };
  const auto all = shared_by_all<seen>();
  const int ranks = GENERATE(1, 2, 3, 9);
  CHECK(launch(ranks, [&](int r) {
          ++all->runs[r];
          all->pids[r] = ::getpid();
          return 0;
        }) == 0);
  std::set<pid_t> distinct{::getpid()};
  for (int r = 0; r < ranks; ++r) {
    CHECK(all->runs[r] == 1);
    distinct.insert(all->pids[r]);
  }
  CHECK(distinct.size() == static_cast<std::size_t>(ranks) + 1);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("success prints nothing") {
  CHECK(with_standard_error([] { return launch(3, [](int) { return 0; }); }) == "0\n");
}

TEST_CASE("a rank's exception, exit status or signal is reported with the rank") {
  const auto one = [](int who, int (*how)()) {
    return with_standard_error([=] { return launch(3, [=](int r) { return r == who ? how() : 0; }); });
  };
  CHECK(one(1, []() -> int { throw std::runtime_error{"no flour\nin the house"}; }) ==
        "1\nkolo: rank 1: no flour in the house\n");
  CHECK(one(2, []() -> int { throw 42; }) == "1\nkolo: rank 2: an exception that is not a std::exception\n");
  CHECK(one(0, []() -> int { throw kolo::error{kolo::errc::timeout, "too late"}; }) == "1\nkolo: rank 0: too late\n");
  CHECK(one(0, [] { return 3; }) == "3\nkolo: rank 0 exited with status 3\n");
  CHECK(one(0, [] { return 256; }) == "1\nkolo: rank 0 exited with status 1\n");
  CHECK(one(0, [] { return -1; }) == "255\nkolo: rank 0 exited with status 255\n");
  CHECK(one(2, [] {  // the return of a process that a rank forked is not reported as the rank's
          if (const pid_t copy = ::fork(); copy == 0) return 0;
          else ::waitpid(copy, nullptr, 0);
          return ::raise(SIGKILL);
        }) == "137\nkolo: rank 2 was killed by signal 9 (Killed)\n");
  CHECK(one(2, [] { return ::raise(SIGKILL); }) == "137\nkolo: rank 2 was killed by signal 9 (Killed)\n");
  CHECK(one(1, [] { return ::raise(SIGTERM); }) == "143\nkolo: rank 1 was killed by signal 15 (Terminated)\n");
  CHECK(one(1, []() -> int { ::_exit(5); }) == "5\nkolo: rank 1 exited with status 5 before its function returned\n");
  CHECK(one(1, []() -> int { ::_exit(0); }) == "1\nkolo: rank 1 exited with status 0 before its function returned\n");
  CHECK(one(1, []() -> int { throw std::runtime_error{std::string(10'000, 'x')}; }) ==
        "1\nkolo: rank 1: " + std::string(1999, 'x') + '\n');
}

TEST_CASE("the first cause is reported first, its consequences last") {
  const std::string said = with_standard_error([] {
    wire death_of[3];
    return launch(
        3,
        [&](int r) -> int {
          if (r == 2) ::raise(SIGKILL);
          death_of[r + 1].hear();
          if (r == 1) throw kolo::error{kolo::errc::peer_died, "rank 2 died"};
          throw std::runtime_error{"and then this"};
        },
        [&](int r) { death_of[r].say("!"); });
  });
  const auto first = said.find("rank 2 was killed"), own = said.find("rank 0: and then this"),
             echo = said.find("rank 1 could not go on: rank 2 died");
  CHECK(said.starts_with("137\n"));
  CHECK(first < own);
  CHECK(own < echo);
  CHECK(echo != std::string::npos);
}

TEST_CASE("a death is announced at once, while the others still run") {
  const std::string said = with_standard_error([&] {
    wire told;
    int announced = -1;
    const int status = launch(
        3,
        [&](int r) {
          if (r == 1) ::raise(SIGKILL);
          return told.hear() == "!" ? 0 : 4;
        },
        [&](int r) {
          announced = r;
          told.say("!!");
        });
    return announced == 1 ? status : -1;
  });
  CHECK(said == "137\nkolo: rank 1 was killed by signal 9 (Killed)\n");
}

TEST_CASE("other children and the program's SIGCHLD handler are left alone") {
  static std::atomic<int> signals{0};
  const std::string said =
      testing::child{[]() -> std::string {
        struct sigaction mine {
        }, now{};
        mine.sa_handler = [](int) { ++signals; };
        ::sigaction(SIGCHLD, &mine, nullptr);
        const pid_t other_child = ::fork();
        if (other_child == 0) ::_exit(17);
        siginfo_t info;
        while (::waitid(P_PID, static_cast<id_t>(other_child), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
        }
        const int status = launch(4, [](int) { return 0; });
        ::sigaction(SIGCHLD, nullptr, &now);
        int theirs = 0;
        if (now.sa_handler != mine.sa_handler || signals == 0) return "another handler";
        if (::waitpid(other_child, &theirs, 0) != other_child || WEXITSTATUS(theirs) != 17)
          return "another child's status was taken";
        return all_gone(status);
      }}.result();
  CHECK(said == "0 none left");
}

TEST_CASE("if the program ignores SIGCHLD, exit statuses are reported, and a signal is not known") {
  const auto one = [](int (*how)()) {
    return with_standard_error([=] {
      ::signal(SIGCHLD, SIG_IGN);
      return launch(2, [=](int r) { return r == 1 ? how() : 0; });
    });
  };
  CHECK(one([] { return 0; }) == "0\n");
  CHECK(one([] { return 6; }) == "6\nkolo: rank 1 exited with status 6\n");
  CHECK(one([] { return ::raise(SIGKILL); }) == "1\nkolo: rank 1 ended, and somebody else took its exit status\n");
}

TEST_CASE("without pidfd_open, or descriptors, spawn does the same, and does not spin while it waits") {
  const bool has_descriptors = GENERATE(true, false);
  const std::string said = with_standard_error([=] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 10;
    if (!has_descriptors) ::setrlimit(RLIMIT_NOFILE, &limit);  // poll refuses to watch more
    else if (!testing::forbid(SYS_pidfd_open, EPERM)) return -1;
    const int status = launch(20, [](int r) {
      if (r == 2) ::poll(nullptr, 0, 1000);  // something to wait for
      return r == 1 ? ::raise(SIGKILL) : 0;
    });
    rusage used;
    ::getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec == 0 && used.ru_utime.tv_usec + used.ru_stime.tv_usec < 500'000
               ? status
               : -2;
  });
  if (said == "-1\n") {
    WARN("skipped: this system has no seccomp filters");
    return;
  }
  CHECK(said == "137\nkolo: rank 1 was killed by signal 9 (Killed)\n");
}

TEST_CASE("a spawn within a rank reports and returns its own ranks' status") {
  const std::string said = with_standard_error([] {
    return launch(2, [](int outer) {
      return launch(2, [outer](int inner) { return outer == 1 && inner == 1 ? ::raise(SIGKILL) : 0; });
    });
  });
  CHECK(said == "137\nkolo: rank 1 was killed by signal 9 (Killed)\nkolo: rank 1 exited with status 137\n");
}

TEST_CASE("when the parent is killed, its ranks end, and so do theirs") {
  wire born, never, alive;
  testing::child parent{[&] {
    launch(2, [&](int) {
      return launch(2, [&](int) {
        born.say("!");
        never.hear(2);
        return 0;
      });
    });
    return std::string{};
  }};
  alive.close_writer();
  REQUIRE(born.hear(4) == "!!!!");
  parent.kill();
  CHECK(alive.ended());  // its last writer has ended
}

TEST_CASE("output buffered before the fork is printed once, and the ranks' output arrives") {
  wire out;
  const std::string said = testing::child{[&] {
                             FILE* const file = ::tmpfile();
                             std::fputs("before ", file);
                             launch(3, [&](int r) { return std::fprintf(file, "rank%d ", r) > 0 ? 0 : 1; });
                             std::string text(100, '\0');
                             ::lseek(::fileno(file), 0, SEEK_SET);
                             text.resize(static_cast<std::size_t>(::read(::fileno(file), text.data(), text.size())));
                             return text;
                           }}.result();
  CHECK(said.size() == std::string{"before rank0 rank1 rank2 "}.size());
  for (const char* part : {"before ", "rank0 ", "rank1 ", "rank2 "}) CHECK(said.find(part) == said.rfind(part));
}

TEST_CASE("if not all ranks can be started, the others are ended, and an error is thrown") {
  const std::string said = testing::child{[]() -> std::string {
                             if (::geteuid() != 0) return "no root";
                             const rlimit three{3, 3};  // processes of a new user: this one and two more
                             const uid_t own = 100'000 + static_cast<uid_t>(::getpid());
                             if (::setrlimit(RLIMIT_NPROC, &three) != 0 || ::setresuid(own, own, own) != 0)
                               return "no root";
                             wire never;
                             try {
                               launch(5, [&](int) { return never.hear().empty() ? 1 : 0; });
                               return "all were started";
                             } catch (const kolo::error& e) {
                               return all_gone(e.code() == kolo::errc::out_of_resources) + ", " + e.what();
                             }
                           }}.result();
  if (said == "no root") {
    WARN("skipped without root: a limit on the number of processes");
    return;
  }
  CHECK(said == "1 none left, kolo: rank 2 of 5 was not started: Resource temporarily unavailable");
}

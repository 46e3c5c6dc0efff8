// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kill -9 of one rank in each phase: the others get an error that names it within a second, and nothing is left behind.
#include <kolo/shm/node_group.hpp>

#include <algorithm>
#include <atomic>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

using clock_type = std::chrono::steady_clock;

/// When the victim died, by the clock that all processes of this host share.
struct last_moment {
  std::atomic<clock_type::rep> at;
  std::atomic<pid_t> victim;
  std::atomic<int> ready;  ///< ranks that are ready for the death
};

[[noreturn]] void die(last_moment& last) {
  last.at = clock_type::now().time_since_epoch().count();
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

/// An operator that kills its rank after it has combined `left` elements.
struct killing_operator {
  last_moment* last;
  bool mine;
  mutable int left;
  int operator()(int a, int b) const {
    if (mine && --left == 0) die(*last);
    return a + b;
  }
};

/// A survivor's result: how the call and the next one end, and whether the first error was late.
template <class C, class F>
std::string survive(C& comm, const last_moment& last, F call) {
  const auto first = end_of(call);
  const auto since = clock_type::now().time_since_epoch() - clock_type::duration{last.at.load()};
  const auto start = clock_type::now();
  const auto next = end_of([&] { kolo::barrier(comm); });
  const bool at_once = clock_type::now() - start < 1s;
  return first + ", " + (since < 1s ? "soon" : "late") + ", then " + next + (at_once ? "" : ", late");
}

/// Calls `run()` again if a rank was late: the machine may be busy for a second once, but not three times.
template <class F>
void expect_survival(common<last_moment>& last, int victim, int p, F run) {
  launch_result end;
  for (int again = 0; again < 3; ++again) {
    last->at = last->victim = last->ready = 0;
    end = run();
    if (!any_is_late(end)) break;
  }
  const auto died = "peer died " + std::to_string(victim);
  CHECK(end.said == all_but(victim, p, died + ", soon, then " + died));
  CHECK(end.status == 128 + SIGKILL);
  CHECK(end.errors.find("rank " + std::to_string(victim) + " was killed by signal 9") != std::string::npos);
  CHECK(end.clean);
}

template <class F>
void for_each_victim(F f) {
  for (int p = 2; p <= 4; ++p)
    for (const int victim : std::set<int>{0, 1, p - 1}) f(p, victim);
}

}  // namespace

TEST_CASE("a rank is killed before its first call") {
  for_each_victim([](int p, int victim) {
    common<last_moment> last;
    expect_survival(last, victim, p, [&] {
      return on_processes(p, [&](auto& comm) {
        if (comm.rank() == victim) die(*last);
        std::vector<int> x(100);
        return survive(comm, *last, [&] { kolo::allreduce(comm, x, kolo::sum); });
      });
    });
  });
}

TEST_CASE("a rank is killed in the middle of a large allreduce") {
  const auto with = [](auto algorithm) {
    for_each_victim([&](int p, int victim) {
      common<last_moment> last;
      expect_survival(last, victim, p, [&] {
        return on_processes(p, [&](auto& comm) {
          std::vector<int> x(1'000'000);
          const killing_operator op{&*last, comm.rank() == victim, 200'000};
          return survive(comm, *last, [&] { kolo::allreduce(comm, x, op, algorithm); });
        });
      });
    });
  };
  with(kolo::ring{});
  with(kolo::two_shot{});
  with(kolo::one_shot{});
}

TEST_CASE("a rank is killed between two calls") {
  for_each_victim([](int p, int victim) {
    common<last_moment> last;
    expect_survival(last, victim, p, [&] {
      return on_processes(p, [&](auto& comm) {
        std::vector<int> x(50'000);
        return survive(comm, *last, [&] {
          for (int k = 0; k < 10; ++k) kolo::allreduce(comm, x, kolo::sum);
          if (comm.rank() == victim) die(*last);
          for (;;) kolo::allreduce(comm, x, kolo::sum);
        });
      });
    });
  });
}

TEST_CASE("a rank is killed while it waits for another") {
  for (int p = 2; p <= 4; ++p) {
    const int victim = p - 1;
    common<last_moment> last;
    expect_survival(last, victim, p, [&] {
      return on_processes(p, [&](auto& comm) {
        kolo::barrier(comm);
        ++last->ready;
        if (comm.rank() == victim) {
          last->victim = ::getpid();
          kolo::barrier(comm);
        }
        if (comm.rank() == 0) {
          while (last->victim == 0 || last->ready < p) ::sched_yield();
          last->at = clock_type::now().time_since_epoch().count();
          ::kill(last->victim, SIGKILL);
        } else {
          while (last->at == 0) ::sched_yield();
        }
        return survive(comm, *last, [&] {
          for (;;) kolo::barrier(comm);
        });
      });
    });
  }
}

TEST_CASE("a rank is killed in node_communicator") {
  for_each_victim([](int p, int victim) {
    common<last_moment> last;
    expect_survival(last, victim, p, [&] {
      return on_processes(p, [&](auto& comm) {
        if (comm.rank() == victim) {
          const kolo::detail::shm::node_group agreed{comm.transport(), "node_communicator", [] {}};
          die(*last);
        }
        return survive(comm, *last, [&] { kolo::shm::node_communicator(comm); });
      });
    });
  });
}

TEST_CASE("a rank is killed after its last call: the others are not affected") {
  for_each_victim([](int p, int victim) {
    common<last_moment> last;
    const auto end = on_processes(p, [&](auto& comm) {
      std::vector<int> x(50'000, 1);
      kolo::allreduce(comm, x, kolo::sum);
      ++last->ready;
      while (last->ready < p) ::sched_yield();
      if (comm.rank() != victim) std::fill(x.begin(), x.end(), 0);
      kolo::broadcast(comm, x, victim, kolo::one_shot{});  // in which no rank waits for another one than the victim
      if (comm.rank() == victim) die(*last);
      return std::to_string(x.back());
    });
    CHECK(end.said == all_but(victim, p, std::to_string(p)));
    CHECK(end.status == 128 + SIGKILL);
    CHECK(end.clean);
  });
}

TEST_CASE("a rank of a child communicator is killed: child and parent both name it") {
  common<last_moment> last;
  const auto end = on_processes(4, [&](auto& comm) {
    auto half = comm.split(comm.rank() % 2, 0);  // ranks 0 and 2, 1 and 3
    ++last->ready;
    while (comm.rank() == 3 && last->ready < 4) ::sched_yield();
    if (comm.rank() == 3) die(*last);
    const auto in_half = comm.rank() == 1 ? end_of([&] { kolo::barrier(half); }) : "-";
    return in_half + ' ' + end_of([&] { kolo::barrier(comm); });
  });
  CHECK(end.said == std::vector<std::string>{"- peer died 3", "peer died 1 peer died 3", "- peer died 3", "nothing"});
  CHECK(end.clean);
}

TEST_CASE("requests in flight and a failed communicator are destroyed without a wait") {
  common<last_moment> last;
  const auto end = on_processes(3, [&](auto& comm) {
    std::vector<int> x(100'000), y(100'000);
    while (comm.rank() == 2 && last->ready < 2) ::sched_yield();  // a start after the first failure is refused
    if (comm.rank() == 2) die(*last);
    {
      auto first = kolo::start_allreduce(comm, x, kolo::sum);
      auto second = kolo::start_allreduce(comm, y, kolo::sum, kolo::ring{});
      ++last->ready;
    }
    return end_of([&] { kolo::start_barrier(comm).wait(); });
  });
  CHECK(end.said == all_but(2, 3, "peer died 2"));
  CHECK(end.clean);
}

TEST_CASE("all ranks are killed: nothing is left") {
  const auto end = on_processes(3, [&](auto& comm) {
    end_of([&] { kolo::barrier(comm); });  // some may be killed before others have left it
    ::kill(::getpid(), SIGKILL);
    return std::string{};
  });
  CHECK(end.said == all_say(3, "nothing"));
  CHECK(end.status == 128 + SIGKILL);
  CHECK(end.clean);
}

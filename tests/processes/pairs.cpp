// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank is killed or stopped while another one sends to it, receives from it or exchanges with it: it is named soon, and nothing is left.
#include <kolo/point_to_point.hpp>

#include <signal.h>
#include <unistd.h>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

/// Rank 1 makes `call` once, and is killed before the second one, or inside it by `begin`. Checks the others' errors.
template <class Call, class Begin>
void is_killed_in(const char* where, std::size_t n, Call call, Begin begin) {
  INFO(where << " of " << n);
  launch_result end;
  for (int again = 0; again < 3; ++again) {
    end = on_processes(3, [&](auto& comm) {
      std::vector<int> x(n, comm.rank()), y(n);
      std::string said;
      const auto start = std::chrono::steady_clock::now();
      said = end_of([&] {
        if (comm.rank() < 2) call(comm, x, y);
        if (comm.rank() == 1) begin(comm, x, y), ::kill(::getpid(), SIGKILL);
        if (comm.rank() == 0) call(comm, x, y);
        kolo::barrier(comm);
      });
      return said + (std::chrono::steady_clock::now() - start < 1s ? ", soon" : ", late");
    });
    if (!any_is_late(end)) break;
  }
  CHECK(end.said == all_but(1, 3, "peer died 1, soon"));
  CHECK(end.status == 128 + SIGKILL);
  CHECK(end.clean);
}

const auto nothing = [](auto&, auto&, auto&) {};

}  // namespace

TEST_CASE("exchange, send, receive: the peer is killed") {
  for (const std::size_t n : {4U, 3000U, 1'000'000U}) {
    const auto exchange = [](auto& comm, auto& x, auto& y) { kolo::exchange(comm, x, y, 1 - comm.rank()); };
    is_killed_in("exchange", n, exchange, nothing);
    is_killed_in(
        "receive", n,
        [](auto& comm, auto& x, auto& y) { comm.rank() == 0 ? kolo::receive(comm, y, 1) : kolo::send(comm, x, 0); },
        nothing);
    if (n > 100'000)
      is_killed_in("the middle of an exchange", n, exchange, [](auto& comm, auto& x, auto& y) {
        auto begun = kolo::start_exchange(comm, x, y, 0);
        static_cast<void>(begun.test());
        ::kill(::getpid(), SIGKILL);
      });
    is_killed_in(
        "requests both ways", n,
        [](auto& comm, auto& x, auto& y) {
          auto a = kolo::start_send(comm, x, 1 - comm.rank(), 1), b = kolo::start_receive(comm, y, 1 - comm.rank(), 1);
          b.wait(), a.wait();
        },
        nothing);
  }
  is_killed_in(
      "send", 1'000'000,
      [](auto& comm, auto& x, auto& y) { comm.rank() == 0 ? kolo::send(comm, x, 1) : kolo::receive(comm, y, 0); },
      nothing);
}

TEST_CASE("receive: a stopped peer is named after the timeout") {
  const auto end = on_processes(2, [&](auto& comm) {
    std::vector<int> x(1000), y(1000);
    if (comm.rank() == 1) {
      kolo::send(comm, x, 0);
      kolo::receive(comm, x, 0);
      ::kill(::getpid(), SIGSTOP);
      return end_of([&] { kolo::barrier(comm); });
    }
    kolo::receive(comm, y, 1);
    kolo::send(comm, x, 1);
    const auto peer = static_cast<pid_t>(comm.transport().who(1).among);
    wait_until_stopped(peer);
    const auto words = words_of([&] { kolo::receive(comm, y, 1, {.timeout = 300ms}); });
    ::kill(peer, SIGCONT);
    return words.find("receive #2, round 0, rank 0: rank 1 is late") != std::string::npos &&
                   words.find("its process is stopped") != std::string::npos
               ? std::string{"timeout 1"}
               : words;
  });
  CHECK(end.said == all_say(2, "timeout 1"));
  CHECK(end.no_process_left);
}

TEST_CASE("exchange: a rank that wakes when its peer has made two calls more takes none of them for the peer's part") {
  const auto end = on_processes(2, [&](auto& comm) {
    namespace os = kolo::detail::os;
    int x[4]{}, y[4]{};
    std::vector<int> more(1000);
    kolo::barrier(comm);  // both have come
    for (int again = 0; again < 5; ++again) {
      if (comm.rank() == 0) {
        const os::process_id peer{static_cast<pid_t>(comm.transport().who(1).among), comm.transport().who(1).number};
        const auto sleeps_in_exchange = [&, its = comm.transport().recorder(1)] {
          const auto n = its->last();
          return n.summary.what() == kolo::kind::exchange && n.waits() && os::read_status(peer.pid).state == 'S';
        };
        while (!sleeps_in_exchange() && !comm.transport().failed()) ::sched_yield();
        ::kill(peer.pid, SIGSTOP);
        wait_until_stopped(peer.pid);
        kolo::exchange(comm, x, y, 1);  // the two ranks use a different memory for each of the three calls
        kolo::send(comm, more, 1);
        kolo::broadcast(comm, x, 0);
        ::kill(peer.pid, SIGCONT);
      } else if (const auto said = end_of([&] {
                   kolo::exchange(comm, x, y, 0);
                   kolo::receive(comm, more, 0);
                   kolo::broadcast(comm, x, 0);
                 });
                 said != "fine")
        return said;
    }
    return std::string{"fine"};
  });
  CHECK(end.said == all_say(2, "fine"));
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's last operations are visible to the others, also if it is stuck or dead: in an error, by dump, at a signal, by a watchdog.
#include <kolo/dump.hpp>
#include <kolo/kolo.hpp>
#include <kolo/point_to_point.hpp>
#include <kolo/watchdog.hpp>

#include <atomic>
#include <cstring>
#include <latch>
#include <optional>
#include <random>
#include <thread>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/message_threads.hpp"

using namespace testing;
using namespace std::chrono_literals;
using kolo::detail::transport::flight_recorder, kolo::detail::transport::operation_summary;

namespace {

/// Repeats ask() until the text has `part`, for at most 30 s; returns the last text.
template <class F>
std::string until(const std::string& part, F ask) {
  std::string text;
  for (const auto end = std::chrono::steady_clock::now() + 30s;
       !contains(text = ask(), part) && std::chrono::steady_clock::now() < end;)
    std::this_thread::yield();
  return text;
}

/// Hides its recorder from the other ranks, as between machines.
struct hidden_recorder : message_transport {
  using message_transport::message_transport;
  explicit hidden_recorder(message_transport&& t) : message_transport{std::move(t)} {}

 private:
  using message_transport::recorder;
};

template <class C>
void sum(C& comm, std::size_t n = 2, std::chrono::nanoseconds timeout = 60s) {
  std::vector<float> x(n);
  kolo::allreduce(comm, x, kolo::sum, kolo::ring{}, {.timeout = timeout});
}

}  // namespace

TEST_CASE("a recorder keeps the last operations, and the rank that is waited for") {
  flight_recorder r;
  CHECK(r.latest() == 0);
  CHECK(r.last().sequence == 0);
  for (std::uint64_t s = 1; s <= 100; ++s) {
    const operation_summary what{kolo::kind::reduce, 3, s};
    r.begin(s, what);
    CHECK(r.latest() == s);
    CHECK_FALSE(r.last().has_ended);
    if (s < 100) r.end(s, what);
  }
  CHECK(r.find(100 - flight_recorder::remembered).sequence == 0);
  const auto n = r.find(101 - flight_recorder::remembered);
  CHECK((n.has_ended && n.summary.bytes() == 69 && n.summary.rounds() == 3 && n.summary.what() == kolo::kind::reduce &&
         n.begun == 0 && n.peer == -1));
  r.wait({}, {.operation = "reduce", .sequence = 100, .round = 2, .peer = 7});
  CHECK((r.last().round == 2 && r.last().peer == 7));
  CHECK(r.find(99).peer == -1);
  r.begin(101, {kolo::kind::reduce, 3, 1});
  CHECK(r.last().peer == -1);
  r.end(101, {});
  r.begin(101, {});
  CHECK_FALSE(r.last().has_ended);
}

TEST_CASE("large operations are timed, and too large numbers saturate") {
  flight_recorder r;
  const operation_summary what{kolo::kind::barrier, 1 << 20, ~std::uint64_t{0}};
  r.begin(1, what);
  r.end(1, what);
  const auto n = r.last();
  CHECK((n.begun > 0 && n.ended >= n.begun && n.summary.what() == kolo::kind::barrier));
  CHECK((n.summary.rounds() == 0x7fff && n.summary.bytes() == (std::uint64_t{1} << 40) - 1));
}

TEST_CASE("a corrupt recorder prints as short text") {
  std::mt19937 random{7};
  alignas(flight_recorder) std::byte memory[sizeof(flight_recorder)];
  for (int times = 0; times < 2000; ++times) {
    for (auto& b : memory) b = static_cast<std::byte>(times % 2 == 0 ? random() : random() % 2 * 255);
    auto& r = *std::launder(reinterpret_cast<flight_recorder*>(memory));
    std::string text;
    const auto sink = [&](std::string_view part) { text += part; };
    kolo::detail::observe::flight_writer<decltype(sink)>{sink, 0}.rank(r);
    text += kolo::detail::transport::last_operation(r);
    CHECK((text.size() < 2000 && text.size() == std::strlen(text.c_str())));
  }
}

TEST_CASE("dump on a rank that is not stuck shows where the others wait") {
  std::string seen;
  kolo::threads::run(3, [&](auto& comm) {
    kolo::barrier(comm);
    if (comm.rank() == 2) {
      until("rank 1 is in allreduce #2, round 1, waiting for rank 0 for ", [&] { return kolo::dump(comm); });
      seen = until("rank 0 is in allreduce #2, round 0, waiting for rank 2 for ", [&] { return kolo::dump(comm); });
    }
    sum(comm, 3000);
  });
  INFO(seen);
  CHECK(contains(seen, "kolo: the last operations of 3 ranks, as rank 2 sees them\n"));
  CHECK(contains(seen, "rank 1 is in allreduce #2, round 1, waiting for rank 0 for "));
  CHECK(contains(seen, "rank 0 is in allreduce #2, round 0, waiting for rank 2 for "));
  CHECK(contains(seen, "  #2 allreduce, 12000 bytes, 4 rounds, has not ended\n  #1 barrier, 1 round\n"));
  CHECK(contains(seen, "rank 2 has ended barrier #1\n"));
}

TEST_CASE("dump shows the rank's own recorder, and not those that are not shared") {
  std::string seen;
  run_message_threads(2,
                      [&](auto& whole) {
                        kolo::communicator<hidden_recorder> comm{std::move(whole.transport())};
                        sum(comm, 10'000);
                        if (comm.rank() == 1) seen = kolo::dump(comm);
                      },
                      {.timeout = 60s});
  INFO(seen);
  CHECK(contains(
      seen, " cannot be seen from here\nrank 1 has ended allreduce #1\n  #1 allreduce, 40000 bytes, 2 rounds, begun "));
  CHECK(contains(seen, " s ago, took "));
}

TEST_CASE("started operations are recorded when they begin and end") {
  kolo::threads::run(1, [&](auto& comm) {
    std::vector<int> x(10);
    auto a = kolo::start_allreduce(comm, x, kolo::sum);
    auto b = kolo::start_barrier(comm);
    CHECK(contains(kolo::dump(comm), "rank 0 is in allreduce #1\n"));
    a.wait();
    CHECK(contains(kolo::dump(comm), "rank 0 is in barrier #2\n"));
    b.wait();
    CHECK(contains(kolo::dump(comm), "rank 0 has ended barrier #2\n"));
  });
}

TEST_CASE("the error and the dump show a dead rank's last operation") {
  const auto end = on_processes(3, [&](auto& comm) {
    const auto words = words_of([&] {
      sum(comm);
      if (comm.rank() == 1) ::raise(SIGKILL);
      sum(comm);
    });
    return words + '|' + kolo::dump(comm);
  });
  for (const int r : {0, 2}) {
    const auto& said = end.said[static_cast<std::size_t>(r)];
    CHECK(contains(said, "rank 1 died; its last operation: allreduce #1, which has ended there|"));
    CHECK(contains(said, "rank 1, which has gone, has ended allreduce #1\n"));
  }
}

TEST_CASE("the error names the rank for which a killed rank waited") {
  common<std::atomic<pid_t>> victim;
  common<std::atomic<bool>> killed;
  const auto end = on_processes(3, [&](auto& comm) {
    sum(comm);
    if (comm.rank() == 0) {
      until("rank 2 is in allreduce #2, round 0, waiting for rank 1", [&] { return kolo::dump(comm); });
      ::kill(*victim, SIGKILL);
      *killed = true;
    }
    if (comm.rank() == 1)
      while (!*killed) ::sched_yield();
    if (comm.rank() == 2) *victim = ::getpid();
    return words_of([&] { sum(comm); });
  });
  for (const int r : {0, 1})
    CHECK(contains(end.said[static_cast<std::size_t>(r)],
                   "rank 2 died; its last operation: allreduce #2, round 0, waiting for rank 1"));
}

TEST_CASE("dump_on writes at the signal, until it is destroyed") {
  const auto said = with_standard_error([] {
    kolo::threads::run(2, [](auto& comm) {
      kolo::barrier(comm);
      if (comm.rank() == 1) return;
      {
        const kolo::dump_on at_signal{SIGUSR1, comm};
        ::raise(SIGUSR1);
      }
      ::raise(SIGUSR1);
    });
    return 0;
  });
  const std::string head = "kolo: the last operations of 2 ranks, as rank 0 sees them\nrank 0 has ended barrier #1\n";
  CHECK(contains(said, head));
  CHECK(said.find(head) == said.rfind(head));
  CHECK_THROWS_AS(kolo::threads::run(1, [](auto& comm) { const kolo::dump_on never{SIGKILL, comm}; }), kolo::error);
}

TEST_CASE("a failed operation no longer waits: no watchdog reports it, and its waiting time is final") {
  for (const bool between_two : {false, true}) {
    std::string end, reports, texts[2], dumped;
    std::latch has_failed{1};
    kolo::threads::run(2, [&](auto& comm) {
      if (comm.rank() == 1) return has_failed.wait();
      end = end_of([&] {
        std::vector<float> x(2);
        between_two ? kolo::receive(comm, x, 1, 0, {.timeout = 50ms}) : sum(comm, 2, 50ms);
      });
      has_failed.count_down();
      const auto& mine = comm.engine()->flight.own();
      kolo::detail::observe::stall_detector guard{{mine, nullptr}, 0, 1s};
      const kolo::backoff::clock::time_point later{24h * 365};
      reports = guard.poll(later), reports += guard.poll(later + 2s);
      for (std::string& text : texts) {
        const auto sink = [&](std::string_view part) { text += part; };
        const std::chrono::nanoseconds time = 24h * (&text == texts ? 365 : 730);
        kolo::detail::observe::flight_writer<decltype(sink)>{sink, time.count()}.rank(*mine);
      }
      dumped = kolo::dump(comm);
    });
    INFO(dumped);
    CHECK(end == "timeout 1");
    CHECK(reports == "");
    CHECK(texts[0] == texts[1]);
    CHECK(contains(dumped, between_two ? "rank 0 failed in receive #1, waiting for rank 1 for "
                                       : "rank 0 failed in allreduce #1, round 0, waiting for rank 1 for "));
  }
}

TEST_CASE("a started call that an exception or a shrink ended has failed, and no watchdog reports it") {
  for (const bool shrinks : {false, true}) {
    std::string reports = "nothing", dumped;
    std::latch waits{1}, is_over{1};
    kolo::threads::run(2, [&](auto& comm) {
      if (comm.rank() == 1) {
        waits.wait();
        if (shrinks) comm.shrink();
        return is_over.wait();
      }
      std::vector<float> x(2);
      const auto look = [&] {
        kolo::detail::observe::stall_detector guard{{comm.engine()->flight.own(), nullptr}, 0, 1s};
        const kolo::backoff::clock::time_point later{24h * 365};
        reports = guard.poll(later), reports += guard.poll(later + 2s), dumped = kolo::dump(comm);
      };
      try {
        auto request = kolo::start_allreduce(comm, x, kolo::sum);
        while (comm.engine()->flight.own()->last().peer < 0) request.test();
        if (!shrinks) throw shrinks;
        waits.count_down();
        comm.shrink();
        look();
      } catch (bool) {
        look();
        waits.count_down();
      }
      is_over.count_down();
    });
    INFO(dumped);
    CHECK(reports == "");
    CHECK(contains(dumped, "rank 0 failed in allreduce #1"));
  }
}

TEST_CASE("a rank that waits in the transport's own call, for no rank in particular, is reported as waiting") {
  const auto mine = std::make_shared<kolo::detail::transport::flight_recorder>();
  mine->begin(1, {}, 7);
  kolo::detail::observe::stall_detector guard{{mine, nullptr}, 0, 1s};
  const kolo::backoff::clock::time_point start{24h * 365};
  CHECK(guard.poll(start).empty());
  CHECK(guard.poll(start + 2s).empty());  // it computes
  kolo::backoff p;
  p.since = start;
  mine->wait(p, {.operation = "allreduce", .sequence = 1, .round = 0});
  const auto said = guard.poll(start + 3s);
  INFO(said);
  CHECK(contains(said, "#1, round 0, waiting for "));
}

TEST_CASE("a watchdog reports once which rank waits for which") {
  std::atomic<int> said{0};
  std::string text;
  std::latch enough{1};
  kolo::threads::run(3, [&](auto& comm) {
    kolo::barrier(comm);
    if (comm.rank() == 1) enough.wait();
    const auto say = [&](const std::string& t) {
      if (!contains(t, "in allreduce #2 for more")) return;  // on a busy machine the next call may take as long
      if (said++ == 0) text = t, enough.count_down();
    };
    std::optional<kolo::watchdog> dog;
    if (comm.rank() == 2) {
      until("rank 0 is in allreduce #2", [&] { return kolo::dump(comm); });
      dog.emplace(comm, 1s, say);
    }
    sum(comm, 3000);
    sum(comm, 3000);
  });
  CHECK(said == 1);
  CHECK(contains(text, "kolo: rank 2 has been in allreduce #2 for more than 1.000 s; rank 0 is in allreduce #2"));
  CHECK(contains(text, "; rank 1 has ended barrier #1; rank 2 is in allreduce #2, round 0, waiting for rank 1"));
}

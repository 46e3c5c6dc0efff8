// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the flight recorder: each rank's last operation, which rank waits for which, and clock offsets.
// built with others: ranks
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/observe/clock_offset.hpp>
#include <kolo/observe/dump.hpp>
#include <kolo/observe/watchdog.hpp>
#include <kolo/schedule/ring.hpp>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/ends.hpp"
#include "support/expect.hpp"

namespace {

using namespace kolo;
using testing::contains, testing::expect, testing::good;

void recorder_remembers() {
  detail::transport::flight_recorder r;
  const detail::transport::operation_summary what{kind::reduce, 3, 20'000};
  for (std::uint64_t s = 1; s <= 40; ++s) {
    r.begin(s, what);
    expect(r.latest() == s && !r.last().has_ended && r.last().begun > 0 && r.last().ended == 0 && r.last().peer == -1);
    r.wait({}, {.operation = "reduce", .sequence = s, .round = 2, .peer = 7});
    expect(r.last().peer == 7 && r.last().round == 2);
    r.end(s, what);
    expect(r.last().has_ended && r.last().ended >= r.last().begun && r.last().peer == -1);
  }
  expect(r.find(8).sequence == 0 && r.find(9).summary.bytes() == 20'000 && r.find(9).summary.rounds() == 3);
  for (const auto again :
       {what,
        detail::transport::operation_summary{
            kind::reduce, 3, 8}}) {  // begins again with the same number, as a comparison of calls and then the call
    r.begin(40, again);
    expect(!r.last().has_ended);
    r.end(40, again);
  }
}

void guard_barks_once() {
  using std::chrono::seconds;
  const auto r = std::make_shared<detail::transport::flight_recorder>();
  detail::observe::stall_detector guard{{r}, 0, seconds{10}};
  const backoff::clock::time_point start{seconds{100}};
  for (std::uint64_t s = 1; s <= 2; ++s) {
    const auto since = start + s * seconds{100};
    r->begin(s, {kind::reduce, 3, 8});
    expect(guard.poll(since).empty() && guard.poll(since + seconds{11}).empty());  // it does not wait
    r->wait({}, {.operation = "reduce", .sequence = s, .round = 2, .peer = 7});
    expect(guard.poll(since + seconds{9}).empty() &&
           contains(guard.poll(since + seconds{11}), "reduce #" + std::to_string(s) + ", round 2, waiting for rank 7"));
    expect(guard.poll(since + seconds{30}).empty());
  }
}

/// Rank 0 waits for rank 1, whose dump shows it, and which rank 0's watchdog names.
void stuck_is_seen() {
  std::atomic<int> barks{0};
  std::string dumped, text;
  threads::run(2, [&](auto& comm) {
    int x[300] = {};
    kolo::barrier(comm);
    const watchdog dog{comm, std::chrono::milliseconds{comm.rank() == 0 ? 100 : 60'000}, [&](const std::string& t) {
                         if (barks == 0) text = t;
                         ++barks;
                       }};
    if (comm.rank() == 1) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
      while ((barks == 0 || !contains(dumped, "rank 0 is in allreduce #2, round 0, waiting for rank 1")) &&
             std::chrono::steady_clock::now() < end)
        dumped = dump(comm);
    }
    kolo::allreduce(comm, x, kolo::sum, ring{});
  });
  expect(barks > 0 && contains(text, "rank 0 has been in allreduce #2") &&
         contains(text, "rank 1 has ended barrier #1"));
  expect(contains(dumped, "rank 0 is in allreduce #2, round 0, waiting for rank 1") &&
         contains(dumped, "rank 1 has ended barrier #1"));
}

/// A waiting rank's error contains the peer's last operation.
void error_has_a_tail() {
  std::string words;
  std::atomic<bool> heard{false};
  threads::run(2, [&](auto& comm) {
    int x = 1;
    kolo::barrier(comm);
    if (comm.rank() == 1) return heard.wait(false);
    try {
      kolo::allreduce(comm, std::span{&x, 1}, kolo::sum, ring{}, {.timeout = std::chrono::milliseconds{100}});
    } catch (const error& e) {
      words = e.what();
    }
    heard = true, heard.notify_one();
  });
  expect(contains(words, "its last operation: barrier #1, which has ended there"));
}

void signs_of_life() {
  using sign = detail::transport::sign_of_life;
  detail::transport::flight_recorder r;
  const auto is = [&](std::uint64_t sequence, std::int64_t recently) { return r.sign(sequence, recently).is; };
  expect(is(1, 1) == sign::busy);
  r.begin(1, {kind::reduce, 3, 8});
  expect(is(1, 1) == sign::silent);
  r.poll({}, {.operation = "reduce", .sequence = 1, .round = 0, .peer = 4},
         backoff::clock::time_point{std::chrono::nanoseconds{50}});
  expect(is(1, 40) == sign::waiting && r.sign(1, 40).awaits == 4 && r.last_poll() == 50);
  expect(is(1, 60) == sign::silent);
  r.end(1, {kind::reduce, 3, 8});
  expect(is(1, 40) == sign::done && is(2, 40) == sign::busy);

  const auto late = [](std::vector<sign> of, int first) { return detail::transport::who_is_late(of, first); };
  const auto waits = [](int on) { return sign{sign::waiting, on, 9}; };
  const sign done{}, busy{sign::busy, -1, 5}, stopped{sign::stopped, -1, 7}, silent{sign::silent, 0, 3};
  expect(late({waits(1), waits(2), waits(3), busy}, 1) == 3 && late({waits(1), waits(0), silent, busy}, 1) == 2);
  expect(late({waits(1), busy, silent, stopped}, 1) == 1 && late({waits(1), silent, stopped, done}, 1) == 2);
  expect(late({waits(1), waits(2), busy, sign{sign::busy, -1, 1}}, 1) == 2);
  expect(late({waits(1), waits(0), done}, 1) == detail::transport::not_known);
  const std::vector<sign> circle{waits(1), waits(0)};
  expect(contains(detail::transport::sentence_about_late(circle, detail::transport::not_known, 1, {}, "; LAST"),
                  "; LAST, and it waits"));
}

/// Rank 0 waits for rank 1, which waits for rank 2, which does not call.
void the_end_of_a_chain_is_named() {
  constexpr int still_waited_for = -2;  // -1: nobody is named
  std::atomic<int> late{still_waited_for};
  threads::run(3, [&](auto& comm) {
    barrier(comm);
    while (comm.rank() == 2 && late == still_waited_for) std::this_thread::yield();
    try {
      if (comm.rank() == 1) comm.transport().recorder(1)->begin(2, {kind::allreduce, 1, 12});
      const wait_context s{.operation = "allreduce",
                           .sequence = 2,
                           .peer = comm.rank() + 1,
                           .timeout = std::chrono::milliseconds{comm.rank() == 0 ? 150 : 5000}};
      for (backoff p; comm.rank() < 2;) comm.transport().relax(p, s);
    } catch (const error& e) {
      late = e.peer();
    }
  });
  expect(late == 2);
}

/// A rank that was not scheduled itself polls for the timeout once more before it names a peer.
void who_was_away_waits() {
  std::atomic<bool> over{false};
  threads::run(2, [&](auto& comm) {
    while (comm.rank() == 1 && !over) std::this_thread::yield();
    if (comm.rank() == 1) return;
    const wait_context s{.operation = "law", .sequence = 1, .peer = 1, .timeout = std::chrono::milliseconds{120}};
    backoff p;
    int polls = 0;
    try {
      for (; polls < 3; ++polls) {
        comm.transport().check(p, s);
        std::this_thread::sleep_for(std::chrono::milliseconds{200});
      }
    } catch (const error&) {
    }
    expect(polls == 2);
    over = true;
  });
}

struct skewed : threads::transport {
  explicit skewed(threads::transport&& t) : threads::transport{std::move(t)} {}
  double now() const {
    return 100.0 * rank() + 1e-9 * static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  skewed split(int color, int key) { return skewed{threads::transport::split(color, key)}; }
};

void clocks_are_compared() {
  threads::run(4,
               [&](auto& comm) {
                 skewed wire{std::move(comm.transport())};
                 const auto found = clock_offset_of(wire);
                 const auto truth =
                     std::int64_t{100'000'000'000} * (wire.rank() / 2 * 2);  // a node has the clock of its first rank
                 expect(std::abs(found.ns - truth) <= found.error && (found.error > 0) == (wire.rank() > 1));
               },
               {.ranks_per_node = 2});
}

}  // namespace

int main() {
  recorder_remembers();
  guard_barks_once();
  stuck_is_seen();
  error_has_a_tail();
  signs_of_life();
  the_end_of_a_chain_is_named();
  who_was_away_waits();
  clocks_are_compared();
  return good ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the transports that inject faults and that trace: the planned rank fails where planned, and every event is recorded.
// built with others: ranks
#include <kolo/adapt/chrome_trace.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/compose/messages.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/observe/faulty.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/ring.hpp>

#include <atomic>
#include <vector>

#include "support/expect.hpp"

namespace {

using namespace kolo;
using testing::expect, testing::good;

template <class T, class F>
void on_threads(F f) {
  threads::run(3, [&](auto& whole) {
    communicator<T> comm{T{std::move(whole.transport())}};
    f(comm);
  });
}

template <class C>
int sum(C& comm, std::chrono::nanoseconds timeout = std::chrono::seconds{10}) {
  std::vector<int> x(300, 1);
  kolo::allreduce(comm, x, kolo::sum, ring{}, {.timeout = timeout});
  return x[299];
}

/// Rank 1's second call fails in the planned round, and not before.
template <class T>
void fails_as_planned() {
  on_threads<faulty<T>>([](auto& comm) {
    inject_fault(comm, {.what = fault_kind::leave, .rank = 1, .operation = 2, .round = 2, .seed = 7});
    expect(sum(comm) == 3);
    try {
      sum(comm);
      expect(false);
    } catch (const error& e) {
      expect(e.peer() == 1 && (comm.rank() != 1 || (e.round() == 2 && e.sequence() == 2)));
    }
  });
}

template <class T>
void is_cut_as_planned() {
  on_threads<faulty<T>>([](auto& comm) {
    inject_fault(comm, {.what = fault_kind::cut, .rank = 1, .peer = 0});
    try {
      sum(comm, std::chrono::milliseconds{comm.rank() == 1 ? 100 : 10000});
      expect(false);
    } catch (const error& e) {
      expect(e.code() == errc::timeout && e.peer() == -1);  // all ranks wait
    }
  });
}

void the_newest_is_found() {
  trace_log log{3};
  expect(!log.newest());
  for (std::uint64_t n = 0; n < 7; ++n) {
    log.add({.bytes = n});
    expect(log.newest()->bytes == n && log.newest() == log.find(n));
  }
  log.forget();
  expect(!log.newest());
}

void is_written_down() {
  on_threads<traced<messages<threads::transport>>>([](auto& comm) {
    watch(comm);
    sum(comm);
    const trace_log& log = comm.transport().log();
    int sent = 0, received = 0;
    for (std::size_t i = 0; i < log.size(); ++i) {
      expect(log[i].end >= log[i].begin && log[i].sequence == 1 && log[i].round >= 0 && log[i].round < 4);
      sent += log[i].kind == trace_event::what::sent;
      received += log[i].kind == trace_event::what::received;
    }
    expect(sent == 4 && received == 4);
    const auto all = merged_chrome_trace(comm);
    for (const char* rank : {"rank 0", "rank 1", "rank 2"})
      expect(all.find(rank) != std::string::npos && all.find(rank) == all.rfind(rank));
  });
}

/// Pieces of slots and halves of exchanges: the sender and the receiver each record one event.
template <class Algorithm>
void is_written_down_in_slots(Algorithm algorithm) {
  std::atomic<int> noted{0}, sent{0};
  std::atomic<std::int64_t> balance{0};
  on_threads<traced<threads::transport>>([&](auto& comm) {
    watch(comm);
    std::vector<int> x(3, 1);
    kolo::allreduce(comm, x, kolo::sum, algorithm);
    const trace_log& log = comm.transport().log();
    for (std::size_t i = 0; i < log.size(); ++i) {
      const auto& e = log[i];
      expect(e.begin > 0 && e.sequence == 1);
      if (e.kind == trace_event::what::waited) continue;
      expect(e.end >= e.begin && e.bytes > 0);
      const bool out = e.kind == trace_event::what::sent;
      const auto key = static_cast<std::int64_t>(e.bytes) + 1000 * (out ? comm.rank() : e.peer) +
                       10000 * (out ? e.peer : comm.rank());
      balance += out ? key : -key;
      noted += 1, sent += out;
    }
  });
  expect(sent >= 3 && noted == 2 * sent && balance == 0);
}

/// A host whose clock is an hour before zero.
struct early : threads::transport {
  explicit early(threads::transport&& w) : threads::transport{std::move(w)} {}
  double now() const {
    return 1e-9 * static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count() % 1'000'000'000'000) -
           3600;
  }
  early split(int color, int key) { return early{threads::transport::split(color, key)}; }
};
void time_before_zero_is_time() {
  std::atomic<int> lasting{0};
  on_threads<traced<early>>([&](auto& comm) {
    sum(comm);
    const trace_log& log = comm.transport().log();
    for (std::size_t i = 0; i < log.size(); ++i)
      lasting += log[i].kind == trace_event::what::sent && log[i].begin < log[i].end;
  });
  expect(lasting > 0);
  trace_log log;
  log.add({.begin = -3'600'000'000'000,
           .end = -3'599'999'999'000,
           .operation = "allreduce",
           .sequence = 1,
           .round = 0,
           .peer = 1});
  const auto text = chrome_trace(log, 0);
  std::size_t spans = 0;
  for (std::size_t at = text.find("\"dur\":"); at != std::string::npos; at = text.find("\"dur\":", at + 1), ++spans)
    expect(text.compare(at, 11, "\"dur\":1.000") == 0);
  expect(spans == 2);
}

}  // namespace

int main() {
  fails_as_planned<threads::transport>();
  fails_as_planned<messages<threads::transport>>();
  is_cut_as_planned<threads::transport>();
  is_cut_as_planned<messages<threads::transport>>();
  the_newest_is_found();
  is_written_down();
  is_written_down_in_slots(one_shot{});
  is_written_down_in_slots(ring{});
  time_before_zero_is_time();
  return good ? 0 : 1;
}

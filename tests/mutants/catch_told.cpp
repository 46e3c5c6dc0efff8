// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches a failure that no rank gets, and a wrong rank in it: of a destructor, of a call that differed.
// built with others: ranks
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/collective/reduce.hpp>
#include <kolo/collective/send.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/chain.hpp>

#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/expect.hpp"

namespace {

using namespace kolo;
using testing::expect, testing::good;

constexpr errc none{};

template <class F>
errc code_of(F call) {
  try {
    call();
    return none;
  } catch (const error& e) {
    return e.code();
  } catch (const std::exception&) {
    return none;
  }
}
template <class F>
errc run_throws(int p, F f, const threads::options& o = {.timeout = std::chrono::seconds{5}}) {
  return code_of([&] { threads::run(p, f, o); });
}

void what_a_destructor_finds() {
  int x[10]{};
  const auto drop = [&](auto& comm) { const auto dropped = start_allreduce(comm, x, sum); };
  expect(run_throws(2, [&](auto& comm) {
           if (comm.rank() == 0) drop(comm);
         }) == errc::peer_left);
  expect(run_throws(2, [&](auto& comm) {
           std::optional<threads::communicator> part;
           std::thread{[&] { part.emplace(comm.split(0, 0)); }}.join();
           if (comm.rank() == 0) drop(*part);
         }) == errc::peer_left);
  errc said = none;
  const auto hears_later = [&](auto& comm) {
    if (comm.rank() != 0) return;
    drop(comm);
    said = code_of([&] { barrier(comm); });
  };
  expect(run_throws(2, hears_later) == none && said == errc::peer_left);
  const auto has_heard = [&](auto& comm) {
    if (comm.rank() != 0) return;
    auto first = start_allreduce(comm, x, sum);
    const auto second = start_allreduce(comm, x, sum);
    said = code_of([&] { first.wait(); });
  };
  expect(run_throws(2, has_heard) == none && said == errc::peer_left);
  const auto sends_after = [&](auto& comm) {
    if (comm.rank() != 0) return;
    std::optional dropped{start_allreduce(comm, x, sum)};
    auto sends = start_broadcast(comm, x, 0);  // waits for nobody
    dropped.reset();
    said = code_of([&] { sends.wait(); });
  };
  expect(run_throws(2, sends_after) == none && said == errc::peer_left);
}

/// All ranks but rank 1 make one call, rank 1 another; then all call barrier.
template <class F, class G>
void differs(int p, F most, G one) {
  std::array<errc, 5> told{};
  run_throws(p, [&](auto& comm) {
    told[static_cast<std::size_t>(comm.rank())] = code_of([&] {
      if (comm.rank() == 1) one(comm);
      else most(comm);
      barrier(comm);
    });
  });
  for (int r = 0; r < p; ++r) expect(told[static_cast<std::size_t>(r)] == errc::mismatch);
}

/// Empty calls, so that only the barrier can notice that an earlier call differed.
void what_differed_before() {
  const auto from = [](int root) { return [root](auto& comm) { broadcast(comm, std::span<int>{}, root); }; };
  for (const int p : {3, 5}) differs(p, from(0), from(1));
  const auto in_parts = [](int segments) {
    return [segments](auto& comm) { broadcast(comm, std::span<int>{}, 0, chain{.segments = segments}); };
  };
  differs(3, in_parts(6), in_parts(7));
}

void two_roots_that_wait_for_each_other() {
  const auto to = [](int root) {
    return [root](auto& comm) {
      int x[10]{};
      reduce(comm, x, x, sum, root);
    };
  };
  differs(2, to(0), to(1));
}

/// Rank 1 has made two other calls when rank 0 looks what it does, once, and gives up before it would look again.
void another_call_at_one_check() {
  int x[4]{}, y[4]{};
  const std::vector<int> more(1000);
  std::atomic<bool> has_sent = false, has_given_up = false;
  errc said = none;
  run_throws(2, [&](auto& comm) {
    if (comm.rank() == 1) {
      int z[4]{};
      kolo::send(comm, more, 0), broadcast(comm, z, 1), has_sent = true, has_sent.notify_all();
      has_given_up.wait(false);
      return;
    }
    has_sent.wait(false);
    said = code_of([&] { exchange(comm, x, y, 1, {.timeout = std::chrono::milliseconds{1}}); });
    has_given_up = true, has_given_up.notify_all();
  });
  expect(said == errc::timeout);
}

/// Rank 2 fails in one communicator; that failure unwinds rank 1, which destroys its part of the other one. Returns the rank in rank 0's error there.
/// `is_member`: rank 2 is in the other one, as rank 1. `has_got_over`: rank 1 catches the failure before it throws.
int whom_the_other_group_blames(bool is_member, bool has_got_over) {
  int blamed = -2;
  run_throws(3, [&](auto& comm) {
    const int r = comm.rank();
    auto failing = comm.split(0, -r), other = comm.split(is_member || r < 2 ? 0 : 1, (r + 2) % 3);
    if (r == 2) code_of([&] { broadcast(failing, std::span<int>{}, 7); });
    if (r != 1) {
      try {
        barrier(other);
      } catch (const error& e) {
        if (r == 0) blamed = e.peer();
      }
      return;
    }
    const auto destroyed = std::move(other);
    if (has_got_over && code_of([&] { barrier(failing); }) == errc::peer_failed) throw std::logic_error{"of its own"};
    barrier(failing);
  });
  return blamed;
}

/// Rank 1 keeps a failure, goes on in another communicator, and throws.
int whom_they_blame_after_that() {
  int blamed = -2;
  run_throws(2, [&](auto& comm) {
    std::optional<error> kept;
    auto failing = comm.split(0, -comm.rank());
    try {
      if (comm.rank() == 0) broadcast(failing, std::span<int>{}, 7);
      barrier(failing);
    } catch (const error& e) {
      kept = e;
    }
    auto other = comm.split(0, 0);
    if (comm.rank() == 1) throw std::logic_error{"of its own"};
    try {
      barrier(other);
    } catch (const error& e) {
      blamed = e.peer();
    }
  });
  return blamed;
}

void what_is_passed_on() {
  expect(whom_they_blame_after_that() == 1);
  expect(whom_the_other_group_blames(true, false) == 1);
  expect(whom_the_other_group_blames(false, false) == -1);
  expect(whom_the_other_group_blames(true, true) == 0);
}

void deadlines() {
  using std::chrono::seconds;
  int x[10]{};
  expect(run_throws(1, [&](auto& comm) { allreduce(comm, x, sum, {.timeout = seconds{-1}}); }) ==
         errc::invalid_argument);
  expect(run_throws(1, [](auto&) {}, {.timeout = seconds{-1}}) == errc::invalid_argument);
}

}  // namespace

int main() {
  what_a_destructor_finds();
  what_differed_before();
  two_roots_that_wait_for_each_other();
  another_call_at_one_check();
  what_is_passed_on();
  deadlines();
  return good ? 0 : 1;
}

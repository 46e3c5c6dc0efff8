// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in driving operations of other communicators: by which rank, in which thread, and where a failure is thrown.
// built with others: ranks
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/launch/threads.hpp>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/taken_over.hpp"

namespace {

using testing::expect, testing::good;

thread_local int yields = 0;

const kolo::threads::options options{.timeout = std::chrono::seconds{5}, .slot_bytes = 128};

/// Two requests, which the ranks wait for, or test, in different orders.
template <class F>
void both(F wait) {
  kolo::threads::run(
      2,
      [&](auto& comm) {
        auto other = comm.split(0, comm.rank());
        std::vector<int> a(500, 1), b(500, 1);
        auto x = kolo::start_allreduce(comm, a, kolo::sum, kolo::ring{}),
             y = kolo::start_allreduce(other, b, kolo::sum, kolo::ring{});
        comm.rank() == 0 ? (wait(x), wait(y)) : (wait(y), wait(x));
        expect(a[499] == 2 && b[499] == 2);
      },
      options);
}

/// An operator throws on rank 0 while rank 0 waits on another communicator.
void failed_elsewhere() {
  kolo::threads::run(
      2,
      [](auto& comm) {
        auto bad = comm.split(0, comm.rank());
        std::vector<int> a(50, 1);
        auto x = kolo::start_allreduce(
            bad, a, [first = comm.rank() == 0](int m, int n) { return first ? throw std::runtime_error("") : m + n; },
            kolo::ring{});
        bool said = false;
        if (comm.rank() == 0) kolo::barrier(comm, kolo::one_shot{});
        try {
          x.wait();
        } catch (const kolo::error&) {
          said = comm.rank() == 1;
        } catch (const std::runtime_error&) {
          said = comm.rank() == 0;
        }
        expect(said);
        if (comm.rank() == 1) kolo::barrier(comm, kolo::one_shot{});
      },
      options);
}

/// Another thread of rank 0 tests a request once: from then on the first thread does not drive it any more.
void handed_over() {
  std::latch asked{2}, sent{2};
  kolo::threads::run(
      2,
      [&](auto& comm) {
        auto other = comm.split(0, comm.rank());
        std::vector<int> a(20, 1);
        auto x = kolo::start_allreduce(comm, a, kolo::sum, kolo::ring{});
        if (comm.rank() == 0) {
          std::jthread{[&] { x.test(); }}.join();
          asked.arrive_and_wait();
          sent.arrive_and_wait();
          kolo::barrier(other, kolo::one_shot{});  // rank 1 enters it after this rank has driven what it may
          expect(a[0] == 1 || a[19] == 1);
        } else {
          asked.arrive_and_wait();
          x.test();
          sent.arrive_and_wait();
          std::this_thread::sleep_for(
              std::chrono::milliseconds{5});  // a longer sleep catches more mistakes, and never fails a right program
          kolo::barrier(other, kolo::one_shot{});
        }
        x.wait();
        expect(a[0] == 2 && a[19] == 2);
      },
      options);
}

/// No rank calls before rank 0 has tested a hundred times.
void asked_in_vain() {
  std::latch over{2};
  kolo::threads::run(2,
                     [&](auto& comm) {
                       if (comm.rank() == 1) over.arrive_and_wait();
                       auto x = kolo::start_barrier(comm, kolo::one_shot{});
                       if (comm.rank() == 0) {
                         yields = 0;
                         for (int i = 0; i < 20; ++i) x.test();
                         expect(yields == 0);
                         for (int i = 0; i < 80; ++i) x.test();
                         expect(yields > 20);
                         over.arrive_and_wait();
                       }
                       x.wait();
                     },
                     {.timeout = std::chrono::minutes{1}});  // as long as other threads may keep the core
}

}  // namespace

extern "C" int sched_yield() noexcept {
  ++yields;
  return static_cast<int>(::syscall(SYS_sched_yield));
}

int main() {
  expect(is_taken_over_between(20));
  try {
    both([](auto& x) { x.wait(); });
    both([](auto& x) {
      while (!x.test()) std::this_thread::yield();
    });
    failed_elsewhere();
    handed_over();
    asked_in_vain();
  } catch (const kolo::error&) {
    return 1;
  }
  return good ? 0 : 1;
}

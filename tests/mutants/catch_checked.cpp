// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in checked mode: every disagreement ends on every rank with the same text, which has the right ranks, places and number.
// built with others: ranks
#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/collective/send.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/chain.hpp>

#include <atomic>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/expect.hpp"

namespace {

using namespace kolo;
using testing::expect, testing::good;

/// Three ranks; f ends on every one with an error that contains `wanted`; "" stands for no error.
template <class F>
void told(const char* wanted, F f, std::size_t slot_bytes = 64 * 1024) {
  const auto rank = [&](auto& comm) {
    std::string words;
    try {
      f(comm);
      barrier(comm);
    } catch (const error& e) {
      words = e.what();
    }
    const bool is_told = *wanted == '\0' ? words.empty() : words.find(wanted) != words.npos;
    if (!is_told && good.exchange(false)) std::printf("\"%s\" instead of \"%s\"\n", words.c_str(), wanted);
  };
  threads::run(3, rank, {.timeout = std::chrono::seconds{5}, .slot_bytes = slot_bytes, .checked = true});
}

template <class C>
void sum_of(C& comm, std::size_t n) {
  std::vector<int> x(n, 1);
  allreduce(comm, x, sum);
}
const std::string place_of_sum = "catch_checked.cpp:" + std::to_string(__LINE__ - 2);

/// True if the call is refused with these words.
template <class F>
bool is_refused(const char* why, F f) {
  try {
    f();
    return false;
  } catch (const error& e) {
    return e.code() == errc::invalid_argument && std::string{e.what()}.find(why) != std::string::npos;
  }
}
constexpr const char* second = "another thread of this rank calls on the same communicator";
constexpr const char* within = "an operator or a view makes a call on the communicator of the call that runs it";

void one_at_a_time() {
  threads::run(1, [&](auto& comm) {
    const int other = 0;
    int x = 1;
    const auto calls = [&] { barrier(comm); };
    const auto start = [&] { return start_allreduce(comm, std::span{&x, 1}, sum); };
    auto& caller = comm.engine()->caller;
    calls();
    std::thread{[&] { calls(); }}.join();  // no longer at the same time
    auto kept = start();
    caller = &other;  // as if another thread were calling
    expect(is_refused(second, calls) && is_refused(second, [&] { kept.wait(); }) &&
           is_refused(second, [&] { comm.split(0, 0); }));
    struct end {
      decltype(caller) its;
      ~end() { its = nullptr; }
    };
    expect(is_refused(second, [&] {
      const auto dropped = std::move(kept);
      const end of_the_other{caller};
      calls();
    }));
    calls();

    std::optional dropped{start()};
    caller = &other;
    std::atomic<bool> is_gone = false;
    std::thread drops{[&] { dropped.reset(), is_gone = true; }};
    for (int i = 0; i < 20'000 && !is_gone; ++i) std::this_thread::yield();
    expect(!is_gone);
    caller = nullptr;
    drops.join();
    calls();
  });
}

void not_within_a_call() {
  threads::run(2, [&](auto& comm) {
    auto part = comm.split(0, 0);
    int x = 1, calls = 0, refused = 0;
    const auto checks = [&](int a, int b) {
      ++calls, refused += is_refused(within, [&] { start_barrier(comm).wait(); });
      return a + b;
    };
    allreduce(comm, std::span{&x, 1}, checks);
    auto request = start_allreduce(comm, std::span{&x, 1}, checks);
    for (int least = 0; least < 2; allreduce(part, std::span{&least, 1}, kolo::min)) least = calls;
    request.wait();
    expect(refused == 2);
  });
}

}  // namespace

int main() {
  told("", [](auto& comm) { sum_of(comm, 3), sum_of(comm, 4); });
  told(
      "", [](auto& comm) { sum_of(comm, 3), sum_of(comm, 4); }, 64);
  const auto differs = "allreduce #2, rank 0: the count differs: rank 0 calls allreduce of 10 int, sum, at " +
                       place_of_sum + "; rank 1 calls allreduce of 11 int, sum, at " + place_of_sum;
  told(differs.c_str(), [](auto& comm) { sum_of(comm, 5), sum_of(comm, 10 + static_cast<std::size_t>(comm.rank())); });
  told("the root differs", [](auto& comm) {
    int x = 0;
    broadcast(comm, std::span{&x, 1}, comm.rank());
  });
  told("the algorithm's parameters differ", [](auto& comm) {
    int x[6]{};
    broadcast(comm, x, 0, chain{.segments = comm.rank() == 2 ? 3 : 2});
  });
  told("the counts differ", [](auto& comm) {
    std::vector<int> x(comm.rank() == 0 ? 1 : 2), all(5);
    allgather(comm, x, all, comm.rank() == 2 ? std::vector<int>{2, 1, 2} : std::vector<int>{1, 2, 2});
  });
  told("rank 2 calls barrier", [](auto& comm) {
    int x[3]{};
    auto plan = plan_allreduce(comm, x, sum);
    plan.run();
    if (comm.rank() == 2) barrier(comm);
    else plan.run();
  });
  told("rank 2: rank 2 calls receive, rank 0 calls barrier", [](auto& comm) {
    int x = 0;
    comm.rank() == 2 ? receive(comm, std::span{&x, 1}, 0) : barrier(comm);
  });
  told("rank 2 calls split", [](auto& comm) { comm.rank() == 2 ? void(comm.split(0, 0)) : barrier(comm); });
  one_at_a_time();
  not_within_a_call();
  return good ? 0 : 1;
}

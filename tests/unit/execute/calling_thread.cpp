// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A second thread of a rank, and an operator, get an error if they call on a communicator whose call runs; that call ends as if they had not.
#include <kolo/execute/calling_thread.hpp>
#include <kolo/point_to_point.hpp>

#include <atomic>
#include <latch>
#include <optional>
#include <thread>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

const std::string second =
    ", rank 0: another thread of this rank calls on the same communicator: use it from one thread at a time, or give "
    "each its own (split)";
const std::string within =
    ": an operator or a view makes a call on the communicator of the call that runs it: give it a communicator of its "
    "own (split)";

template <class C>
std::string sum_of_ranks(C& comm, std::size_t n = 1) {
  std::vector<int> x(n, comm.rank() + 1);
  kolo::allreduce(comm, x, kolo::sum);
  return std::to_string(x.back());
}

/// Between two ranks. In a thread of rank 0, `first(comm)` waits for rank 1, which makes the same call, meanwhile `others(comm, expect)` calls in another one:
/// `expect(name, call)` checks that it is refused under that name. Both ranks have started `requests` before, and wait for them in the end.
template <class First, class Others>
void refused_beside(First first, Others others, bool is_checked = false) {
  std::latch refused{2};
  std::vector<std::string> wrong;
  const auto said = on_threads(2,
                               [&](auto& comm) -> std::string {
                                 int early[2]{comm.rank(), comm.rank()}, planned = comm.rank();
                                 auto request = kolo::start_allreduce(comm, std::span{&early[0], 1}, kolo::sum),
                                      second_request = kolo::start_allreduce(comm, std::span{&early[1], 1}, kolo::sum);
                                 auto plan = kolo::plan_allreduce(comm, std::span{&planned, 1}, kolo::sum);
                                 std::string its;
                                 if (comm.rank() == 1) {
                                   refused.arrive_and_wait();
                                   its = first(comm, request);
                                 } else {
                                   std::thread caller{[&] { its = first(comm, request); }};
                                   while (!comm.engine()->caller.load(std::memory_order_acquire))
                                     std::this_thread::yield();
                                   others(comm, second_request, plan, [&](const std::string& name, auto call) {
                                     const auto words = words_of(call);
                                     if (words != "kolo: " + name + second) wrong.push_back(name + ": " + words);
                                   });
                                   refused.arrive_and_wait();
                                   caller.join();
                                 }
                                 request.wait(), second_request.wait(), plan.run(), plan.run();
                                 return its + ' ' + std::to_string(early[0]) + std::to_string(early[1]) +
                                        std::to_string(planned) + ' ' + sum_of_ranks(comm);
                               },
                               {.timeout = std::chrono::seconds{60}, .checked = is_checked});
  CHECK(wrong == std::vector<std::string>{});
  CHECK(said == all_say(2, "3 112 3"));
}

const auto all_calls = [](auto& comm, auto& request, auto& plan, auto expect) {
  int x = 0, y = 0;
  expect("barrier", [&] { kolo::barrier(comm); });
  expect("allreduce", [&] { kolo::allreduce(comm, std::span{&x, 1}, kolo::sum); });
  expect("allreduce", [&] { kolo::start_allreduce(comm, std::span{&x, 1}, kolo::sum).wait(); });
  expect("allreduce", [&] { kolo::plan_allreduce(comm, std::span{&x, 1}, kolo::sum).run(); });
  expect("send", [&] { kolo::send(comm, std::span{&x, 1}, 1); });
  expect("receive", [&] { kolo::receive(comm, std::span{&x, 1}, 1); });
  expect("exchange", [&] { kolo::start_exchange(comm, std::span{&x, 1}, std::span{&y, 1}, 1).wait(); });
  expect("allreduce", [&] { request.wait(); });
  expect("allreduce", [&] { request.test(); });
  expect("allreduce", [&] { request.restart(); });
  expect("allreduce", [&] { plan.run(); });
  expect("split", [&] { comm.split(0, 0); });
  expect("grow", [&] { comm.grow("nowhere"); });
  expect("shrink", [&] { comm.shrink(); });
  expect("symmetric", [&] { kolo::symmetric<int>(comm, 1); });
  expect("node_communicator", [&] { kolo::shm::node_communicator(comm); });
};

}  // namespace

TEST_CASE("beside a blocking call, another thread's calls are refused") {
  for (const bool is_checked : {false, true})
    refused_beside([](auto& comm, auto&) { return sum_of_ranks(comm); }, all_calls, is_checked);
}

TEST_CASE("beside a wait, a plan, a split or a receive, another thread's calls are refused") {
  refused_beside([](auto&, auto& request) { return request.wait(), "3"; }, all_calls);
  refused_beside(
      [](auto& comm, auto&) {
        int x = comm.rank() + 1;
        kolo::plan_allreduce(comm, std::span{&x, 1}, kolo::sum).run();
        return std::to_string(x);
      },
      all_calls);
  refused_beside([](auto& comm, auto&) { return std::to_string(comm.split(0, 0).size() + 1); }, all_calls);
  refused_beside(
      [](auto& comm, auto&) {
        int x = 3, y = 0;
        kolo::exchange(comm, std::span{&x, 1}, std::span{&y, 1}, 1 - comm.rank());
        return std::to_string(y);
      },
      all_calls);
}

TEST_CASE("a refused thread that drops its request waits for the call of the other, and breaks nothing") {
  std::latch refused{2};
  const auto said = on_threads(2, [&](auto& comm) -> std::string {
    int x = comm.rank() + 1;
    std::optional request{kolo::start_allreduce(comm, std::span{&x, 1}, kolo::sum)};
    if (comm.rank() == 1) {
      refused.arrive_and_wait();
      return sum_of_ranks(comm) + (request->wait(), std::to_string(x)) + sum_of_ranks(comm);
    }
    std::string first;
    std::thread caller{[&] { first = sum_of_ranks(comm); }};
    while (!comm.engine()->caller.load(std::memory_order_acquire)) std::this_thread::yield();
    const auto words = words_of([&] {
      struct drop {
        decltype(request)& its;
        ~drop() { its.reset(); }
      } at_the_end{request};
      struct tell {
        std::latch& refused;
        ~tell() { refused.arrive_and_wait(); }
      } before{refused};
      request->wait();
    });
    const auto sum = std::to_string(x);
    caller.join();
    return words == "kolo: allreduce" + second ? first + sum + sum_of_ranks(comm) : words;
  });
  CHECK(said == all_say(2, "333"));
}

TEST_CASE("a request is destroyed after the call of another thread has ended") {
  const auto said = on_threads(1, [](auto& comm) {
    static const int other = 0;
    std::atomic<bool> is_gone = false;
    int x = 1;
    std::optional request{kolo::start_allreduce(comm, std::span{&x, 1}, kolo::sum)};
    comm.engine()->caller = &other;  // as if another thread were calling
    std::thread drops{[&] { request.reset(), is_gone = true; }};
    for (int i = 0; i < 20'000 && !is_gone; ++i) std::this_thread::yield();
    const bool was_early = is_gone;
    comm.engine()->caller = nullptr;
    drops.join();
    return std::string{was_early ? "early" : comm.engine()->caller ? "still there" : "fine"};
  });
  CHECK(said == all_say(1, "fine"));
}

TEST_CASE("a call waits while another thread destroys a request") {
  const auto said = on_threads(1, [](auto& comm) {
    alignas(2) static const char other[2]{};
    std::atomic<bool> has_ended = false;
    std::string words;
    comm.engine()->caller = other + 1;  // as if another thread were in the destructor
    std::thread calls{[&] { words = words_of([&] { kolo::barrier(comm); }), has_ended = true; }};
    for (int i = 0; i < 20'000 && !has_ended; ++i) std::this_thread::yield();
    const bool was_early = has_ended;
    comm.engine()->caller = nullptr;
    calls.join();
    return was_early ? "early: " + words : words;
  });
  CHECK(said == all_say(1, ""));
}

TEST_CASE("an operator cannot call on the communicator of its call") {
  const auto said = on_threads(2, [](auto& comm) {
    auto other = comm.split(0, 0);
    std::string wrong;
    int y = 0;
    const auto refused_in = [&](const char* name, auto call) {
      const auto wanted = "kolo: " + (name + (", rank " + std::to_string(comm.rank()))) + within;
      const auto sum_in = [&](std::size_t n, const char* how, auto run) {
        std::vector<int> x(n, comm.rank() + 1);
        int calls = 0;
        run(x, calls, [&](int a, int b) {
          if (calls++ == 0)
            if (const auto words = words_of(call); words != wanted) wrong += how + (": " + words);
          return a + b;
        });
        if (calls == 0 || x.front() != 3 || x.back() != 3) wrong += how;
      };
      for (const auto n : {std::size_t{1}, std::size_t{100'000}}) {
        sum_in(n, "call", [&](auto& x, int&, auto op) { kolo::allreduce(comm, x, op); });
        sum_in(n, "wait", [&](auto& x, int&, auto op) { kolo::start_allreduce(comm, x, op).wait(); });
        sum_in(n, "plan", [&](auto& x, int&, auto op) { kolo::plan_allreduce(comm, x, op).run(); });
        sum_in(n, "test", [&](auto& x, int&, auto op) {
          for (auto request = kolo::start_allreduce(comm, x, op); !request.test();) std::this_thread::yield();
        });
        sum_in(n, "other", [&](auto& x, int& calls, auto op) {
          auto request = kolo::start_allreduce(comm, x, op);
          for (int least = 0; least == 0; kolo::allreduce(other, std::span{&least, 1}, kolo::min)) least = calls;
          request.wait();
        });
      }
    };
    refused_in("allreduce", [&] { kolo::allreduce(comm, std::span{&y, 1}, kolo::sum); });
    refused_in("barrier", [&] { kolo::start_barrier(comm).wait(); });
    refused_in("split", [&] { comm.split(0, 0); });
    return wrong;
  });
  CHECK(said == all_say(2, ""));
}

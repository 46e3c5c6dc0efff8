// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nonblocking and persistent calls: several at once, on one communicator and on two, waited for in any order or not at all.
#include <kolo/scaled.hpp>

#include <latch>
#include <optional>

#include "collectives/some_ranks.hpp"
#include "support/catch.hpp"
#include "support/ends.hpp"

using namespace testing;

TEST_CASE("a request ends after enough tests, or after a wait") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          auto x = start_values(r, 500, 0), y = start_values(r, 500, 1);
          auto tested = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{});
          while (!tested.test()) std::this_thread::yield();
          expect_same(wrong, "tested", r, x, sums(p, 500, 0));
          wrong.expect(tested.test(), "test stays true");
          tested.wait();
          auto waited = kolo::start_allreduce(comm, y, kolo::sum, {.timeout = std::chrono::seconds{50}});
          waited.wait();
          expect_same(wrong, "waited for", r, y, sums(p, 500, 1));
        }) == "");
}

TEST_CASE("restart of a request that has not finished is refused") {
  kolo::threads::run(2, [](auto& comm) {
    std::vector<int> x(100'000, 1), y = x;
    auto first = kolo::start_allreduce(comm, x, kolo::sum), second = kolo::start_allreduce(comm, y, kolo::sum);
    const auto said = words_of([&] { first.restart(); });
    second.wait();
    first.wait();
    first.restart();
    first.wait();
    if (said != "kolo: a request is started once more before it has finished") throw std::runtime_error{said};
    if (x[0] != 4 || y[0] != 2) throw std::runtime_error{"wrong sums"};
  });
}

TEST_CASE("a request that another call completed is finished before it restarts") {
  kolo::threads::run(2, [](auto& comm) {
    std::vector<float> x(33, 127);  // a group, and one element of the next, which is copied
    auto request = kolo::start_allreduce(comm, x, kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::sum));
    kolo::barrier(comm);
    request.restart();
    request.wait();
    if (x != std::vector<float>(33, 4 * 127))
      throw std::runtime_error{std::to_string(x[0]) + ", " + std::to_string(x[32])};
  });
}

TEST_CASE("many requests are in flight, and are waited for in reverse order") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          std::vector<std::vector<int>> x;
          for (int k = 0; k < 9; ++k) x.push_back(start_values(r, 40 * static_cast<std::size_t>(k), k));
          std::vector<decltype(kolo::start_allreduce(comm, x[0], kolo::sum))> requests;
          for (auto& each : x) requests.push_back(kolo::start_allreduce(comm, each, kolo::sum));
          int root_value = r;
          auto last = kolo::start_broadcast(comm, std::span{&root_value, 1}, p - 1);
          last.wait();
          wrong.expect(root_value == p - 1, "the last request");
          for (std::size_t k = x.size(); k-- > 0;) {
            requests[k].wait();
            expect_same(wrong, "one of many", r, x[k], sums(p, x[k].size(), static_cast<int>(k)));
          }
        }) == "");
}

TEST_CASE("a blocking call and a plan wait for requests that were started before them") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          auto first = start_values(r, 300, 0), second = first, third = first;
          auto started = kolo::start_allreduce(comm, first, kolo::sum);
          kolo::allreduce(comm, second, kolo::sum);
          expect_same(wrong, "started", r, first, sums(p, 300, 0));
          expect_same(wrong, "blocking", r, second, sums(p, 300, 0));
          auto plan = kolo::plan_allreduce(comm, third, kolo::sum);
          auto again = kolo::start_allreduce(comm, first, kolo::max);
          plan.run();
          expect_same(wrong, "plan", r, third, sums(p, 300, 0));
          again.wait();
          expect_same(wrong, "max of equals", r, first, sums(p, 300, 0));
        }) == "");
}

TEST_CASE("requests on two communicators progress side by side") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          auto other = comm.split(0, -r);  // the same ranks in reverse order
          wrong.expect(other.rank() == p - 1 - r, "split orders by key");
          auto a = start_values(r, 200, 0), b = start_values(other.rank(), 200, 5), c = start_values(r, 200, 9);
          auto on_a = kolo::start_allreduce(comm, a, kolo::sum, kolo::ring{});
          auto on_b = kolo::start_allreduce(other, b, kolo::sum, kolo::ring{});
          auto on_c = kolo::start_allreduce(comm, c, kolo::sum, kolo::ring{});
          while (!(int{on_c.test()} & int{on_b.test()} & int{on_a.test()})) std::this_thread::yield();
          expect_same(wrong, "first of one", r, a, sums(p, 200, 0));
          expect_same(wrong, "first of the other", r, b, sums(p, 200, 5));
          expect_same(wrong, "second of one", r, c, sums(p, 200, 9));
        }) == "");
}

TEST_CASE("a request's destructor waits for it, and a request may outlive its communicator") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          auto x = start_values(r, 700, 0), y = start_values(r, 70, 3);
          { auto forgotten = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{}); }
          expect_same(wrong, "destroyed", r, x, sums(p, 700, 0));
          {
            std::optional child{comm.split(0, r)};
            auto orphan = kolo::start_allreduce(*child, y, kolo::sum);
            child.reset();
            orphan.wait();
          }
          expect_same(wrong, "orphan", r, y, sums(p, 70, 3));
          auto moved = kolo::start_barrier(comm), target = kolo::start_barrier(comm);
          target = std::move(moved);
          target.wait();
          auto first = kolo::plan_barrier(comm), second = std::move(first);
          auto begun = kolo::start_barrier(comm), taken = std::move(begun);
          const auto refuses = [&](const char* what, auto call) {
            wrong.expect(words_of(call) == "kolo: this request or plan was moved from, and holds no call", what);
          };
          refuses("run", [&] { first.run(); });
          refuses("wait", [&] { begun.wait(); });
          refuses("test", [&] { begun.test(); });
          refuses("restart", [&] { begun.restart(); });
          taken.wait();
          second.run();
        }) == "");
}

TEST_CASE("after a request that was abandoned, a later one does not send in its place, but gets its error") {
  std::latch ended{1};
  std::string first, second;
  kolo::threads::run(2, [&](auto& comm) {
    if (comm.rank() == 1) return ended.wait(), (void)words_of([&] { kolo::barrier(comm); });
    std::vector<int> x(100, 1), y = x;
    std::optional late{kolo::start_allreduce(comm, x, kolo::sum, {.timeout = std::chrono::milliseconds{1}})};
    auto sends = kolo::start_broadcast(comm, y, 0);  // waits for nobody
    first = words_of([&] { late->wait(); });
    late.reset();
    second = words_of([&] { sends.wait(); });
    ended.count_down();
  });
  CHECK(first.find("rank 1 is late") != std::string::npos);
  CHECK(second == first);
}

TEST_CASE("a plan's run uses the current contents of its buffers") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          std::vector<int> x(333), out(333);
          auto in_place = kolo::plan_allreduce(comm, x, kolo::sum, kolo::circulant{});
          auto from_x = kolo::plan_allreduce(comm, x, out, kolo::sum, kolo::recursive_doubling{});
          for (int k = 0; k < 50; ++k) {
            std::ranges::copy(start_values(r, 333, k), x.begin());
            from_x.run();
            in_place.run();
            expect_same(wrong, "out of place", r, out, sums(p, 333, k));
            expect_same(wrong, "in place", r, x, sums(p, 333, k));
          }
        }) == "");
}

TEST_CASE("small calls match, whether a rank makes the blocking or the nonblocking one") {
  for (const int ranks : {2, 3, 5})
    CHECK(on_ranks(ranks, [](auto& comm, complaints& wrong) {
            const int p = comm.size(), r = comm.rank();
            for (const std::size_t n : {std::size_t{1}, std::size_t{7}, std::size_t{4000}, std::size_t{8000}})
              for (int round = 0; round < 4; ++round) {
                const bool waits = (r + round) % 2 == 0;
                std::vector<int> x(n, r + 1), y(n, r), all(n * static_cast<std::size_t>(p)), expected;
                for (int q = 0; q < p; ++q) expected.insert(expected.end(), n, q);
                if (waits) {
                  kolo::allreduce(comm, x, kolo::sum, kolo::one_shot{});
                  kolo::allgather(comm, y, all);
                  kolo::broadcast(comm, y, p - 1, kolo::one_shot{});
                } else {
                  kolo::start_allreduce(comm, x, kolo::sum, kolo::one_shot{}).wait();
                  kolo::start_allgather(comm, y, all).wait();
                  kolo::start_broadcast(comm, y, p - 1, kolo::one_shot{}).wait();
                }
                wrong.expect(x == std::vector<int>(n, p * (p + 1) / 2), "allreduce");
                wrong.expect(all == expected, "allgather");
                wrong.expect(y == std::vector<int>(n, p - 1), "broadcast");
              }
          }) == "");
}

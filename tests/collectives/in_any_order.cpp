// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests on several communicators, completed in a different order on each rank: a wait progresses all requests that its thread started.
#include <latch>
#include <stdexcept>

#include "collectives/ranks.hpp"
#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/routed_threads.hpp"

using namespace testing;
using kolo::detail::transport::progress_engine;

namespace {

constexpr std::size_t many = 5'000;  // ints: no rank finishes without the others

template <class F>
std::string on_all_wires(F f) {
  std::string all;
  for (const int p : {2, 3})
    for (const auto slot : {usual_slot, small_slot})
      all += on_ranks(p, f, slot) + on_ranks<over_messages>(p, f, slot) + on_ranks<over_routes<by_turns>>(p, f, slot) +
             on_ranks<over_routes<together>>(p, f, slot);
  return all;
}

/// As many communicators of all ranks as there are ranks, each with a vector longer than a slot.
template <class C>
struct several {
  explicit several(C& comm) {
    for (int i = 0; i < comm.size(); ++i) {
      comms.push_back(comm.split(0, comm.rank()));
      x.emplace_back(many, 1);
    }
  }
  auto start(std::size_t i) {
    return kolo::start_allreduce(comms[i], x[i], kolo::sum, kolo::ring{}, {.timeout = std::chrono::seconds{20}});
  }
  bool is_done() const {
    for (const auto& each : x)
      if (each != std::vector<int>(each.size(), static_cast<int>(x.size()))) return false;
    return true;
  }

  std::vector<C> comms{};
  std::vector<std::vector<int>> x{};
};

}  // namespace

TEST_CASE("requests on several communicators may be waited for in a different order on each rank") {
  CHECK(on_all_wires([](auto& comm, complaints& wrong) {
          const auto p = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
          several all{comm};
          std::vector<decltype(all.start(0))> requests;
          for (std::size_t i = 0; i < p; ++i) requests.push_back(all.start(i));
          for (std::size_t i = 0; i < p; ++i) requests[(i + r) % p].wait();
          wrong.expect(all.is_done(), "waited for");
        }) == "");
}

TEST_CASE("testing one request until it ends progresses the others") {
  CHECK(on_all_wires([](auto& comm, complaints& wrong) {
          const auto p = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
          several all{comm};
          std::vector<decltype(all.start(0))> requests;
          for (std::size_t i = 0; i < p; ++i) requests.push_back(all.start(i));
          for (std::size_t i = 0; i < p; ++i)
            while (!requests[(i + r) % p].test()) continue;
          wrong.expect(all.is_done(), "tested");
        }) == "");
}

TEST_CASE("blocking calls, plans and split progress requests of other communicators") {
  CHECK(on_all_wires([](auto& comm, complaints& wrong) {
          const bool waits_first = comm.rank() == 0;
          auto other = comm.split(0, comm.rank());
          const auto beside = [&](const char* what, auto call) {
            std::vector<int> x(many, 1);
            auto request =
                kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{}, {.timeout = std::chrono::seconds{20}});
            if (waits_first) request.wait();
            call();
            if (!waits_first) request.wait();
            wrong.expect(x == std::vector<int>(many, comm.size()), what);
          };
          std::vector<int> small(1, 1), large(many, 1);
          auto plan = kolo::plan_allreduce(other, large, kolo::max);
          beside("a small call", [&] { kolo::allreduce(other, small, kolo::max, kolo::one_shot{}); });
          beside("a large call", [&] { kolo::allreduce(other, large, kolo::max); });
          beside("a plan", [&] { plan.run(); });
          beside("split", [&] { other.split(0, 0); });
        }) == "");
}

TEST_CASE("the failure of a request of another communicator is thrown there, and does not affect this communicator") {
  CHECK(on_all_wires([](auto& comm, complaints& wrong) {
          auto bad = comm.split(0, comm.rank());
          std::vector<int> x(100, 1), y(100, 1);
          const auto throws = [is_first = comm.rank() == 0](int a, int b) {
            return is_first ? throw std::runtime_error("a bug of the user's") : a + b;
          };
          const auto start = [&] {
            return kolo::start_allreduce(bad, x, throws, kolo::ring{});
          };  // no other rank can finish without rank 0
          const auto well = [&] { kolo::allreduce(comm, y, kolo::sum); };
          if (comm.rank() != 0) {
            wrong.expect(end_of([&] { start().wait(); }) == "peer failed 0",
                         "the other ranks get the failure, a late one at once");
            well();
          } else {
            auto request = start();
            well();  // the other ranks make this call only when the other communicator has failed
            wrong.expect(y == std::vector<int>(100, comm.size()), "the communicator without a failure");
            wrong.expect(bad.transport().failed() != nullptr, "the other communicator has failed meanwhile");
            try {
              request.wait();
              wrong.say("the failure was lost");
            } catch (const std::runtime_error& e) {
              wrong.expect(std::string{e.what()} == "a bug of the user's", e.what());
            }
            wrong.expect(end_of([&] { kolo::barrier(bad); }) == "peer failed 0", "the next call");
          }
          kolo::barrier(comm);
        }) == "");
}

TEST_CASE("a request that another thread waits for is progressed by that thread alone") {
  CHECK(on_ranks(2, [](auto& comm, complaints& wrong) {
          auto other = comm.split(0, comm.rank());
          std::vector<int> x(many, 1), y(many, 1);
          std::latch has_claimed{1};
          auto request = kolo::start_allreduce(comm, x, kolo::sum), mine = kolo::start_allreduce(other, y, kolo::sum);
          wrong.expect(progress_engine::of_this_thread() != nullptr, "this thread has started a request");
          {
            const std::jthread waits{[&] {
              request.test();
              has_claimed.count_down();
              request.wait();
              kolo::barrier(comm);
            }};
            if (comm.rank() == 0) has_claimed.wait();
            mine.wait();
          }
          wrong.expect(x == std::vector<int>(many, 2) && y == x, "the sums");
          kolo::barrier(comm);
          auto again = kolo::start_allreduce(comm, x, kolo::max);
          mine = kolo::start_allreduce(other, y, kolo::max);
          mine.wait();
          again.wait();
        }) == "");
}

TEST_CASE("a request may outlive the thread that started it") {
  // Rank 1 starts after rank 0's thread has ended, and rank 0 continues after rank 1's has: no request ends on the thread that started it.
  std::latch first{1}, second{1};
  CHECK(on_ranks(2, [&](auto& comm, complaints& wrong) {
          auto other = comm.split(0, comm.rank());
          std::vector<int> x(many, 1), y(many, 1);
          using request_type = decltype(kolo::start_allreduce(comm, x, kolo::sum));
          std::vector<request_type> requests;
          if (comm.rank() == 1) first.wait();
          std::jthread{[&] {
            requests.push_back(kolo::start_allreduce(comm, x, kolo::sum));
            requests.push_back(kolo::start_allreduce(other, y, kolo::sum));
            requests[0].test(), requests[1].test();
          }}.join();
          (comm.rank() == 0 ? first : second).count_down();
          second.wait();
          for (auto& each : requests) each.test();  // they belong to this thread from now on
          requests[comm.rank() == 0 ? 0 : 1].wait();
          requests[comm.rank() == 0 ? 1 : 0].wait();
          wrong.expect(x == std::vector<int>(many, 2) && y == x, "the sums");
        }) == "");
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives over a composite of two transports: which transport a call uses, the order of calls, and failures.
#include <future>
#include <latch>
#include <memory>
#include <vector>

#include "collectives/every_movement.hpp"
#include "collectives/every_reduction.hpp"
#include "laws/shrink_laws.hpp"
#include "support/catch.hpp"
#include "support/composite_threads.hpp"
#include "support/ends.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

struct over_both {
  using communicator = composite_threads<>;
  template <class F>
  static void run(int p, F f, std::size_t slot_bytes) {
    run_composite_threads(p, f, impatient(slot_bytes));
  }
};

/// All views are in host memory: no call uses the first transport.
struct over_second {
  using communicator = composite_threads<kolo::by_memory>;
  template <class F>
  static void run(int p, F f, std::size_t slot_bytes) {
    run_composite_threads<kolo::by_memory>(p, f, impatient(slot_bytes));
  }
};

/// A first transport that is constructed from the host communicator's, as those for devices are.
struct made_of_host : message_transport {
  using message_transport::message_transport;
  explicit made_of_host(message_transport&& made) : message_transport{std::move(made)} {}
  explicit made_of_host(kolo::threads::communicator& host)
      : message_transport{host.transport().split(0, host.rank())} {}
  made_of_host split(int color, int key) { return made_of_host{message_transport::split(color, key)}; }
};

/// The number of calls made so far.
template <class C>
std::uint64_t calls(C& comm) {
  return std::max(comm.first().engine()->sequence, comm.second().engine()->sequence);
}

}  // namespace

TEST_CASE("composite: construction times out if a rank does not take part") {
  std::string said;
  std::latch given_up{1};
  kolo::threads::run(2,
                     [&](auto& host) {
                       if (host.rank() == 1) return given_up.wait();
                       try {
                         kolo::composite<made_of_host, kolo::threads::transport> both{host};
                       } catch (const kolo::error& e) {
                         said = e.operation();
                       }
                       given_up.count_down();
                     },
                     {.timeout = 100ms});
  CHECK(said == "composite");
}

TEST_CASE("composite: run throws what a request's destructor finds, whichever thread of the rank has made it") {
  const auto end = [](auto make) {
    return end_of([&] {
      kolo::threads::run(2, [&](auto& host) {
        std::vector<int> x(100);
        {
          auto both = std::async(std::launch::async, [&] { return make(host); }).get();
          if (host.rank() == 0) auto dropped = kolo::start_allreduce(*both, x, kolo::sum);
        }
        kolo::barrier(host);
      });
    });
  };
  using over_first = kolo::composite<made_of_host, kolo::threads::transport, kolo::by_kind<kolo::kind::allreduce>>;
  CHECK(end([](auto& host) { return std::make_unique<over_first>(host); }) == "peer left 1");
  CHECK(end([](auto& host) { return std::make_unique<kolo::communicator<made_of_host>>(host); }) == "peer left 1");
}

TEST_CASE("composite: all collectives have right results") {
  for (const int p : {1, 2, 3, 5})
    CHECK(on_ranks<over_both>(
              p,
              [](auto& comm, complaints& wrong) {
                every_allreduce(comm, wrong, 211);
                every_reduce_scatter(comm, wrong, 211);
                every_broadcast(comm, wrong, 211);
                every_allgather(comm, wrong, 211);
                every_alltoall(comm, wrong, 211);
                kolo::barrier(comm);
              },
              p == 3 ? small_slot : usual_slot) == "");
}

TEST_CASE("composite: the rule selects the transport of a call") {
  CHECK(on_ranks<over_both>(2, [](auto& comm, complaints& wrong) {
          int x[]{1};
          kolo::allreduce(comm, x, kolo::sum);
          kolo::broadcast(comm, x, 0, {.timeout = std::chrono::seconds{5}});
          wrong.expect(comm.first().engine()->sequence == 2 && comm.second().engine()->sequence == 0,
                       "allreduce and broadcast use the first transport");
          kolo::barrier(comm);
          kolo::reduce(comm, x, x, kolo::sum, 0);
          wrong.expect(comm.second().engine()->sequence == 4,
                       "the other calls use the second transport, and continue the numbers");
          wrong.expect(x[0] == (comm.rank() == 0 ? 4 : 2), "the sum");
        }) == "");
  CHECK(on_ranks<over_second>(2, [](auto& comm, complaints& wrong) {
          int x[]{1};
          kolo::allreduce(comm, x, kolo::sum);
          wrong.expect(comm.first().engine()->sequence == 0 && comm.second().engine()->sequence == 1,
                       "host views use the second transport");
        }) == "");
}

TEST_CASE("composite: a call starts only when all calls of the other transport have ended") {
  CHECK(on_ranks<over_both>(3, [](auto& comm, complaints& wrong) {
          std::vector<int> x(1000, comm.rank()), y(1000, 1), z(3);
          for (int k = 0; k < 20; ++k) {
            auto a = kolo::start_allreduce(comm, x, kolo::max);
            auto b = kolo::start_reduce_scatter(comm, std::span{y}.first(3), std::span{z}.first(1), kolo::sum);
            wrong.expect(!comm.first().engine()->newest, "the allreduce has ended");
            if (comm.rank() == k % 3) b.wait(), a.wait();
            else a.wait();
            auto c = kolo::start_allreduce(comm, y, kolo::min);
            wrong.expect(!comm.second().engine()->newest, "the reduce_scatter has ended");
            c.wait();
          }
          wrong.expect(x[999] == 2 && z[0] == 3 && y[0] == 1, "the results");
          wrong.expect(calls(comm) == 60, "both transports share one sequence of numbers");
        }) == "");
}

TEST_CASE("composite: an operator of a call on one transport that calls on the other is refused") {
  for (const std::size_t n : {10UL, 100'000UL})
    for (const bool is_started : {false, true}) {
      std::string said[2];
      run_composite_threads(2,
                            [&](auto& comm) {
                              std::vector<int> x(n);
                              const auto calls = [&](int a, int b) { return kolo::start_barrier(comm).wait(), a + b; };
                              said[comm.rank()] = words_of([&] {
                                if (!is_started) kolo::allreduce(comm, x, calls);
                                auto request = kolo::start_allreduce(comm, x, calls);
                                kolo::barrier(comm);
                              });
                            },
                            {.timeout = 60s});
      INFO(n << is_started << "\n" << said[0] << "\n" << said[1]);
      for (const auto& words : said)
        CHECK(words.find("makes a call on the communicator of the call that runs it") != std::string::npos);
    }
}

TEST_CASE("composite: a communicator of one transport outlives the other, on some ranks sooner than on others") {
  for (const bool keeps_first : {true, false})
    CHECK(on_ranks<over_both>(3, [&](auto& comm, complaints& wrong) {
            auto both = std::make_unique<composite_threads<>>(comm.split(0, 0));
            int x[]{1};
            kolo::allreduce(*both, x, kolo::sum);
            kolo::barrier(*both);
            if (!keeps_first) kolo::allreduce(*both, x, kolo::sum);
            const auto go_on = [&](auto part) {
              if (comm.rank() == 1) both.reset();
              kolo::allreduce(part, x, kolo::sum);
            };
            if (keeps_first) go_on(both->first());
            else go_on(both->second());
            wrong.expect(x[0] == (keeps_first ? 9 : 27), "the sum");
          }) == "");
}

TEST_CASE("composite: plans of both transports, and split") {
  CHECK(on_ranks<over_both>(4, [](auto& comm, complaints& wrong) {
          int x[]{1}, all[4]{};
          auto sum = kolo::plan_allreduce(comm, x, kolo::sum, kolo::ring{});
          auto gather = kolo::plan_allgather(comm, x, all);
          for (int k = 0; k < 3; ++k) sum.run(), gather.run();
          wrong.expect(all[3] == 64 && calls(comm) == 6, "plans alternate between the transports");
          auto half = comm.split(comm.rank() % 2, -comm.rank());
          wrong.expect(half.size() == 2 && half.rank() == 1 - comm.rank() / 2, "the order of the ranks after split");
          int y[]{comm.rank()};
          kolo::allreduce(half, y, kolo::sum);
          kolo::allgather(half, y, std::span{all}.first(2));
          wrong.expect(y[0] == 2 + 2 * (comm.rank() % 2) && all[1] == y[0], "a child uses both transports");
          sum.run();
          wrong.expect(x[0] == 256, "the parent remains usable");
        }) == "");
}

TEST_CASE("composite: a failure of one transport fails both") {
  for (const bool on_first : {true, false}) {
    std::vector<std::string> ends(4), later(4);
    run_composite_threads(4, [&](auto& comm) {
      const auto r = static_cast<std::size_t>(comm.rank());
      int x[]{1}, all[4]{};
      ends[r] = end_of([&] {
        kolo::allreduce(comm, x, kolo::sum);
        if (comm.rank() == 2 && on_first) comm.first().engine()->refuse("allreduce", "a test");
        if (comm.rank() == 2) comm.second().engine()->refuse("allgather", "a test");
        kolo::allgather(comm, x, all);
        kolo::allreduce(comm, x, kolo::sum);
      });
      later[r] = end_of([&] { kolo::allreduce(comm, x, kolo::sum); }) + end_of([&] { kolo::allgather(comm, x, all); });
    });
    CHECK(ends == std::vector<std::string>{"peer failed 2", "peer failed 2", "invalid argument 2", "peer failed 2"});
    CHECK(later == std::vector<std::string>(4, "peer failed 2peer failed 2"));
  }
}

TEST_CASE("composite: ranks that make calls in different orders get timeout or mismatch") {
  std::vector<std::string> ends(2);
  run_composite_threads(2, [&](auto& comm) {
    int x[]{1}, all[2]{};
    ends[static_cast<std::size_t>(comm.rank())] = end_of([&] {
      if (comm.rank() == 0)
        kolo::allreduce(comm, x, kolo::sum,
                        {.timeout = std::chrono::milliseconds{50}});  // on the first transport; rank 0 is alone there
      else kolo::allgather(comm, x, all);
    });
  });
  CHECK(ends == std::vector<std::string>(2, "timeout 1"));
  run_composite_threads(2, [&](auto& comm) {
    int x[]{1};
    ends[static_cast<std::size_t>(comm.rank())] = end_of([&] {
      if (comm.rank() == 0) {  // a call that the other rank has not made
        comm.second().engine()->acquire_turn();
        ++comm.second().engine()->sequence;
      }
      kolo::allreduce(comm, x, kolo::sum);
    });
  });
  CHECK(ends[0].starts_with("mismatch "));
  CHECK(ends[0] == ends[1]);
}

TEST_CASE("composite: a failure found by a request's destructor fails the host's communicator") {
  const auto drops_a_failure_on = [](auto rule) {
    return on_ranks(2, [&](auto& host, complaints&) {
      kolo::composite<made_of_host, kolo::threads::transport, decltype(rule)> both{host};
      std::vector<int> x(10);
      const auto ends_it = [](int, int) -> int { throw std::runtime_error{"an operator"}; };
      auto dropped = kolo::start_allreduce(both, x, ends_it, kolo::ring{});
    });
  };
  CHECK(drops_a_failure_on(kolo::by_kind<kolo::kind::allreduce>{}).find("allreduce #1") != std::string::npos);
  CHECK(drops_a_failure_on(kolo::by_memory{}).find("allreduce #1") != std::string::npos);
}

TEST_CASE("composite: transports that number their ranks differently are refused") {
  const auto said = on_ranks(2, [](auto& host, complaints&) {
    kolo::composite<kolo::threads::transport, kolo::threads::transport> both{host.transport().split(0, -host.rank()),
                                                                             host.transport().split(0, host.rank())};
  });
  CHECK(said.find("the transports of a composite must number the same ranks: this is rank ") != std::string::npos);
}

TEST_CASE("composite: shrink keeps the same ranks on both transports") {
  const auto each_says = [](int p, auto law) {
    std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
    run_composite_threads(
        p, [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = law(comm); }, impatient(usual_slot));
    return said;
  };
  for (const int p : {1, 2, 5}) {
    const std::vector<std::string> fine(static_cast<std::size_t>(p));
    CHECK(each_says(p, laws::shrinking_without_loss_keeps_all) == fine);
    CHECK(each_says(p, laws::shrinking_leaves_out_who_left) == fine);
    CHECK(each_says(p, laws::shrinking_calls_those_who_wait) == fine);
    CHECK(each_says(p, laws::shrinking_happens_once) == fine);
  }
  CHECK(each_says(3, [](auto& comm) -> std::string {  // rank 1 leaves between the two shrinks
          kolo::threads::transport& second = comm.second().transport();
          if (comm.rank() == 1) return second.shrink(60s).size() == 3 ? "" : "the second transport has lost ranks";
          auto rest = comm.shrink();
          return laws::is_whole(rest, comm.rank() / 2, 2);
        }) == std::vector<std::string>(3));
}

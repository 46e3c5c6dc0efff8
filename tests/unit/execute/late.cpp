// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are late, leave or throw: three different errors, which name them; and nothing hangs afterwards.
#include <kolo/observe/clock_offset.hpp>
#include <kolo/observe/counted.hpp>
#include <kolo/point_to_point.hpp>
#include <kolo/scaled.hpp>

#include <cstring>
#include <future>
#include <latch>
#include <optional>
#include <stdexcept>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/message_threads.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

/// All ranks except the last make the call; the last one makes it when it has failed on all others.
template <class F>
std::vector<std::string> without_the_last(int p, F call) {
  std::latch begun{p}, given_up{p - 1};
  return on_threads(p, [&](auto& comm) {
    const bool late = comm.rank() == p - 1;
    kolo::barrier(comm);
    begun.arrive_and_wait();  // else one may give up while another has not left the barrier
    if (late) given_up.wait();
    const auto said = end_and_next(comm, [&] { call(comm); });
    if (!late) given_up.count_down();
    return said;
  });
}

}  // namespace

TEST_CASE("a late rank is named by all, also by itself when it calls") {
  const auto allreduce = [](auto& comm) {
    std::vector<int> x(10'000);
    kolo::allreduce(comm, x, kolo::sum, {.timeout = 200ms});
  };
  CHECK(without_the_last(2, allreduce) == all_say(2, "timeout 1, then timeout 1"));
  CHECK(without_the_last(2, [](auto& comm) {
          comm.rank() == 0 ? kolo::barrier(comm, {.timeout = 200ms}) : void(comm.split(0, 0));
        }) == all_say(2, "timeout 1, then timeout 1"));
  for (const auto& said : without_the_last(4, allreduce)) CHECK(said.starts_with("timeout"));
}

TEST_CASE("a timeout of split, symmetric, node_communicator or clock_offset_of names the operation") {
  const auto named = [](auto call) {
    std::latch given_up{1};
    return on_threads(2,
                      [&](auto& comm) -> std::string {
                        if (comm.rank() == 1) return given_up.wait(), "late";
                        std::string said = "fine";
                        try {
                          call(comm);
                        } catch (const kolo::error& e) {
                          said = std::string{kolo::name(e.code())} + " of " + std::string{e.operation()};
                        }
                        return given_up.count_down(), said;
                      },
                      {.timeout = 100ms, .ranks_per_node = 1})[0];
  };
  CHECK(named([](auto& comm) { comm.split(0, 0); }) == "timeout of split");
  CHECK(named([](auto& comm) { kolo::symmetric<int>(comm, 10); }) == "timeout of symmetric");
  CHECK(named([](auto& comm) { kolo::shm::node_communicator(comm); }) == "timeout of node_communicator");
  CHECK(named([](auto& comm) { kolo::clock_offset_of(comm.transport()); }) == "timeout of clock_offset_of");
}

TEST_CASE("a timeout reports the rank, the operation, the round and the time") {
  std::latch begun{2}, given_up{1};
  const auto said = on_threads(2, [&](auto& comm) -> std::string {
    kolo::barrier(comm);
    begun.arrive_and_wait();  // the barrier has ended on both
    if (comm.rank() == 1) {
      given_up.wait();
      return "";
    }
    int x = 1;
    try {
      kolo::allreduce(comm, std::span{&x, 1}, kolo::sum, kolo::ring{}, {.timeout = 200ms});
      return "fine";
    } catch (const kolo::error& e) {
      given_up.count_down();
      if (e.code() != kolo::errc::timeout || e.peer() != 1 || e.rank() != 0 || e.round() != 0 || e.sequence() != 2)
        return "wrong fields";
      if (e.operation() != "allreduce" || e.elapsed() < 200ms || e.elapsed() > 10s) return "wrong fields";
      return e.what();
    }
  });
  CHECK(said[0] ==
        "kolo: allreduce #2, round 0, rank 0: rank 1 is late: it has not done its part within 0.200 s; its last "
        "operation: "
        "barrier #1, which has ended there");
}

TEST_CASE("arriving data does not extend the deadline: a sender that stops in the middle is late") {
  std::latch stopped{1}, given_up{1};
  const auto said = on_threads(2,
                               [&](auto& comm) -> std::string {
                                 std::vector<int> x(1'000'000);
                                 if (comm.rank() == 0) {
                                   stopped.wait();  // one test sends for as long as the receiver keeps up
                                   const auto words = words_of([&] { kolo::receive(comm, x, 1, {.timeout = 200ms}); });
                                   given_up.count_down();
                                   return words;
                                 }
                                 auto request = kolo::start_send(comm, x, 0);
                                 const bool has_ended = request.test();
                                 stopped.count_down();
                                 given_up.wait();
                                 return has_ended ? "all is sent" : "";
                               },
                               {.slot_bytes = 1024});
  INFO(said[0]);
  CHECK(said[0].starts_with("kolo: receive #1, round 0, rank 0: rank 1 is late: it has not done its part within "));
  CHECK(said[1] == "");
}

TEST_CASE("a call without a timeout has that of the communicator") {
  std::latch given_up{1};
  const auto said = on_threads(2,
                               [&](auto& comm) {
                                 if (comm.rank() == 1) given_up.wait();
                                 const auto end = end_of([&] { kolo::barrier(comm); });
                                 if (comm.rank() == 0) given_up.count_down();
                                 return end;
                               },
                               {.timeout = 100ms});
  CHECK(said == all_say(2, "timeout 1"));
}

TEST_CASE("testing a started call notices its deadline") {
  std::latch given_up{1};
  const auto said = on_threads(2, [&](auto& comm) {
    if (comm.rank() == 1) given_up.wait();
    const auto end = end_of([&] {
      auto request = kolo::start_barrier(comm, {.timeout = 100ms});
      while (!request.test()) std::this_thread::yield();
    });
    if (comm.rank() == 0) given_up.count_down();
    return end;
  });
  CHECK(said == all_say(2, "timeout 1"));
}

TEST_CASE("a call's deadline holds while an earlier call is pending, and the error names both") {
  for (const int call_mode : {0, 1, 2}) {
    std::latch given_up{1};
    const auto said = on_threads(2, [&](auto& comm) -> std::string {
      if (comm.rank() == 1) return given_up.wait(), "late";
      int x[3]{};
      const kolo::threads::transport::options soon{.timeout = 100ms};
      auto before = kolo::start_barrier(comm, {.timeout = 10s});
      const auto words = words_of([&] {
        if (call_mode == 0) return kolo::allreduce(comm, x, kolo::sum, soon);
        auto request = kolo::start_allreduce(comm, x, kolo::sum, soon);
        while (call_mode == 1 && !request.test()) std::this_thread::yield();
        request.wait();
      });
      return given_up.count_down(), words;
    });
    CHECK(said[0] ==
          "kolo: allreduce #2, rank 0: rank 1 is late: it has not done its part within 0.100 s; it has begun no "
          "operation; barrier #1 comes before it, and has not ended");
  }
}

TEST_CASE("a rank that leaves while others wait for it is named") {
  for (int p = 2; p <= 5; ++p) {
    const auto said = on_threads(p, [&](auto& comm) -> std::string {
      if (comm.rank() == p - 1) return kolo::barrier(comm), "gone";
      std::vector<int> x(100);
      return end_and_next(comm, [&] {  // some may still be in the barrier when another finds that the last rank left
        kolo::barrier(comm);
        kolo::allreduce(comm, x, kolo::sum);
      });
    });
    const auto left = "peer left " + std::to_string(p - 1);
    CHECK(said == all_but(p - 1, p, left + ", then " + left, "gone"));
  }
  CHECK(on_threads(3, [](auto& comm) -> std::string {  // its block is empty
          if (comm.rank() == 2) return "gone";
          int x[2]{};
          return end_of([&] { kolo::allreduce(comm, x, kolo::sum, kolo::two_shot{}); });
        }) == all_but(2, 3, "peer left 2", "gone"));
}

TEST_CASE("a rank that leaves after it has done its part causes no error") {
  const auto said = on_threads(3, [&](auto& comm) -> std::string {
    int x = comm.rank() + 5;
    for (int k = 0; k < 3; ++k) kolo::broadcast(comm, std::span{&x, 1}, 0);  // rank 0 waits for no other rank
    return std::to_string(x);
  });
  CHECK(said == all_say(3, "5"));
}

TEST_CASE("a rank that throws is named") {
  for (int p = 2; p <= 5; ++p) {
    const auto said = on_threads(p, [&](auto& comm) {
      return end_and_next(comm, [&] {  // some may still be in the first barrier when rank 1 has left it
        kolo::barrier(comm);
        if (comm.rank() == 1) throw std::runtime_error("a bug of the user's");
        kolo::barrier(comm);
      });
    });
    CHECK(said == all_but(1, p, "peer failed 1, then peer failed 1"));
  }
}

TEST_CASE("run rethrows the exception that caused the other failures") {
  CHECK_THROWS_WITH(kolo::threads::run(4,
                                       [](auto& comm) {
                                         if (comm.rank() == 2) throw std::runtime_error("a bug of the user's");
                                         kolo::barrier(comm);
                                       }),
                    "a bug of the user's");
}

TEST_CASE("a request that an exception destroys fails on the other ranks, and its destructor does not wait") {
  const auto said = on_threads(3, [&](auto& comm) -> std::string {
    std::vector<int> x(100'000);
    if (comm.rank() == 1) {
      try {
        auto request = kolo::start_allreduce(comm, x, kolo::sum);
        throw std::runtime_error("a bug of the user's");
      } catch (const std::runtime_error&) {
      }
      return end_of([&] { kolo::barrier(comm); });
    }
    return end_of([&] { kolo::allreduce(comm, x, kolo::sum); });
  });
  CHECK(said == all_say(3, "peer failed 1"));
}

namespace {
/// Rank 1 leaves, and rank 0 runs `f(comm)`. The error that run throws then; 0: none.
template <class F>
kolo::errc run_throws(F f) {
  try {
    kolo::threads::run(2, [&](auto& comm) {
      if (comm.rank() == 0) f(comm);
    });
  } catch (const kolo::error& e) {
    return e.code();
  }
  return kolo::errc{};
}
}  // namespace

TEST_CASE("run throws a failure that a request's destructor finds, unless a call has reported it") {
  std::vector<int> x(100);
  const auto drop = [&](auto& comm) { auto dropped = kolo::start_allreduce(comm, x, kolo::sum); };
  CHECK(run_throws(drop) == kolo::errc::peer_left);
  CHECK(run_throws([&](auto& comm) {
          drop(comm);
          if (end_of([&] { kolo::barrier(comm); }) == "fine") throw std::runtime_error("nothing was said");
        }) == kolo::errc{});
  CHECK(run_throws([&](auto& comm) {
          auto late = kolo::start_allreduce(comm, x, kolo::sum);
          auto later = kolo::start_allreduce(comm, x, kolo::sum);
          if (end_of([&] { late.wait(); }) == "fine") throw std::runtime_error("nothing was said");
        }) == kolo::errc{});
}

TEST_CASE("run throws a failure that a request's destructor finds on a split or a decorated communicator") {
  std::vector<int> x(100);
  const auto end = [&](auto make) {
    return end_of([&] {
      kolo::threads::run(2, [&](auto& comm) {
        {
          auto part = make(comm);
          if (comm.rank() == 0) auto dropped = kolo::start_allreduce(part, x, kolo::sum);
        }
        kolo::barrier(comm);
      });
    });
  };
  using transport = kolo::threads::transport;
  CHECK(end([](auto& comm) { return comm.split(0, 0); }) == "peer left 1");
  CHECK(
      end([](auto& comm) {
        return std::async(std::launch::async, [&] { return comm.split(0, 0); }).get();  // in another thread of the rank
      }) == "peer left 1");
  CHECK(end([](auto& comm) { return kolo::communicator<kolo::counted<transport>>{comm.transport().split(0, 0)}; }) ==
        "peer left 1");
}

TEST_CASE("an unreported failure is kept when another communicator at the same address fails") {
  const kolo::detail::shm::region_shape shape{1, {}};
  kolo::detail::shm::private_mapping memory;
  std::optional<kolo::detail::execute::engine<kolo::threads::transport>> engine;
  const auto make = [&] { engine.emplace(memory, kolo::threads::transport::initialise(memory, shape), shape, 0); };
  make();
  const auto unreported = engine->unreported;
  kolo::failure found;
  found.code = kolo::errc::peer_left;
  unreported->keep(&*engine, found);
  make();
  engine->unreported = unreported;
  engine->mark_reported();
  CHECK(end_of([&] { unreported->throw_if_any(); }) == "peer left -1");
}

TEST_CASE("a negative timeout is refused, and fails on the other ranks") {
  for (const int call_mode : {0, 1, 2}) {
    const auto said = on_threads(2, [&](auto& comm) {
      std::vector<int> x(10);
      const std::chrono::seconds timeout{comm.rank() == 1 ? -1 : 60};
      return end_of([&] {
        if (call_mode == 0) kolo::allreduce(comm, x, kolo::sum, {.timeout = timeout});
        if (call_mode == 1) kolo::start_allreduce(comm, x, kolo::sum, {.timeout = timeout}).wait();
        if (call_mode == 2) kolo::plan_allreduce(comm, x, kolo::sum, {.timeout = timeout}).run();
      });
    });
    CHECK(said == std::vector<std::string>{"peer failed 1", "invalid argument 1"});
  }
  CHECK_THROWS_AS(kolo::threads::run(2, [](auto&) {}, {.timeout = -1s}), kolo::error);
  CHECK_THROWS_AS(kolo::threads::run(2, [](auto&) {}, {.timeout = 0s}), kolo::error);
}

TEST_CASE("an operator that throws fails the communicator, on all ranks") {
  for (const int p : {2, 3}) {
    const auto said = on_threads(p, [&](auto& comm) {
      std::vector<int> x(1000);
      const auto op = [bad = comm.rank() == 1](int a, int b) {
        return bad ? throw std::runtime_error("a bug of the user's") : a + b;
      };
      std::string end;
      try {
        end = end_and_next(comm, [&] { kolo::allreduce(comm, x, op); });
      } catch (const std::runtime_error&) {
        end = end_of([&] { kolo::barrier(comm); });
      }
      return end + ", " + words_of([&] { kolo::barrier(comm); });
    });
    for (const auto& words : said) {
      CHECK(words.find("peer failed 1, kolo: ") != std::string::npos);  // on some the allreduce may have succeeded
      CHECK(words.ends_with("rank 1: an exception ended its operation: a bug of the user's"));
    }
  }
}

namespace {

/// A wait for which memory is short.
struct wait_that_throws : message_transport {
  using message_transport::message_transport;
  inline static thread_local bool is_short = false;
  void relax(kolo::backoff& p, const kolo::wait_context& s) {
    if (std::exchange(is_short, false)) throw std::bad_alloc{};
    message_transport::relax(p, s);
  }
};

}  // namespace

TEST_CASE("an exception while a call waits fails the communicator, on all ranks") {
  for (const std::string how : {"blocking", "plan", "request"}) {
    std::string said[2];
    std::latch planned{2}, thrown{1}, noticed{1};
    run_threads_over<wait_that_throws>(
        2,
        [&](auto& comm) {
          std::vector<int> x(1000);
          const bool is_culprit = comm.rank() == 1;
          auto plan = kolo::plan_allreduce(comm, x, kolo::sum, kolo::ring{});
          planned.arrive_and_wait();
          is_culprit ? void(wait_that_throws::is_short = true) : thrown.wait();
          const auto call = [&] {
            if (how == "blocking") kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
            else if (how == "plan") plan.run();
            else kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{}).wait();
          };
          if (is_culprit) CHECK_THROWS_AS(call(), std::bad_alloc);
          thrown.count_down(is_culprit);
          said[comm.rank()] = words_of([&] { is_culprit ? kolo::barrier(comm) : call(); });
          is_culprit ? noticed.wait() : noticed.count_down();
        },
        kolo::threads::options{.timeout = 5s});
    for (const auto& words : said)
      CHECK(words.ends_with(std::string{"rank 1: an exception ended its operation: "} + std::bad_alloc{}.what()));
  }
}

namespace {

/// Throws when `left` reaches 0.
struct throws_once {
  void count() const {
    if (--*left == 0) throw std::runtime_error("a bug of the user's");
  }
  int* left;
};
struct sum_that_throws : throws_once {
  static constexpr bool commutative = true;
  int operator()(int a, int b) const { return count(), a + b; }
};
template <class T>
struct view_that_throws : throws_once {
  using element_type = T;
  std::span<T> all;
  std::size_t size() const { return all.size(); }
  std::span<T> run(std::size_t i) const {
    const auto end = i < size() / 2 ? size() / 2 : size();
    return count(), all.subspan(i, end - i);
  }
};

/// Two ranks start an operation that makes each element of x 3, and that throws on rank 0 at count `th`. Then both call `other`, which fails: afterwards the
/// request has failed, or is complete on the rank that had all its data.
template <class Run, class Start, class Other>
void check_fails_for_good(Run run, std::size_t n, int th, Start start, Other other) {
  std::vector<std::string> said(2);
  std::latch started{2};
  run(2, [&](auto& comm) {
    std::vector<int> x(n, comm.rank() + 1);
    int left = -1;
    auto request = start(comm, std::span{x}, left);
    started.arrive_and_wait();
    if (comm.rank() == 0) left = th;
    auto& words = said[static_cast<std::size_t>(comm.rank())];
    try {
      words = end_of([&] { other(comm); });
    } catch (const std::runtime_error&) {
      words = "thrown";
    }
    words += ", then " + end_of([&] { request.wait(); });
    if (words.ends_with("fine") && x != std::vector<int>(n, 3)) words = "wrong elements";
  });
  INFO(said[1]);
  CHECK(said[0] == "thrown, then peer failed 0");
  CHECK((said[1] == "peer failed 0, then peer failed 0" || said[1] == "peer failed 0, then fine"));
}

}  // namespace

TEST_CASE("a view that throws while its call is prepared fails the communicator") {
  const auto op = kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::sum);  // copies groups that are not full
  // Each rank makes a call on x; on rank 1 the next run of x throws when `soon` is called.
  const auto check = [](auto call) {
    const auto said = on_threads(2, [&](auto& comm) {
      std::vector<float> x(40, 1);
      int left = -1;
      const view_that_throws<float> view{{&left}, x};
      try {
        call(comm, view, [&] { left = comm.rank() == 1 ? 1 : -1; });
      } catch (const std::runtime_error&) {
      }
      left = -1;
      return words_of([&] { kolo::barrier(comm); });
    });
    for (const auto& words : said) CHECK(words.find("rank 1: an exception ended") != std::string::npos);
    for (const auto& words : said) CHECK(words.ends_with(": a bug of the user's"));
  };
  check([](auto& comm, auto& x, auto soon) { soon(), kolo::allreduce(comm, x, kolo::sum); });
  check([](auto& comm, auto& x, auto soon) { soon(), kolo::start_allreduce(comm, x, kolo::sum).wait(); });
  check([](auto& comm, auto& x, auto soon) { soon(), kolo::plan_allreduce(comm, x, kolo::sum).run(); });
  check([](auto& comm, auto& x, auto soon) {
    soon();
    comm.rank() == 0 ? kolo::send(comm, x, 1) : kolo::receive(comm, x, 0);
  });
  check([&](auto& comm, auto& x, auto soon) {
    auto plan = kolo::plan_allreduce(comm, x, op);
    soon(), plan.run();
  });
  std::string again;
  check([&](auto& comm, auto& x, auto soon) {
    auto request = kolo::start_allreduce(comm, x, op);
    kolo::barrier(comm);  // the request has finished
    try {
      soon(), request.wait();
    } catch (const std::runtime_error&) {  // rank 1
      again = words_of([&] { request.wait(); });
    }
  });
  CHECK(again.ends_with(": a bug of the user's"));  // its elements were never copied back
}

TEST_CASE("a started call in which something threw does not continue, whichever call reported it") {
  const auto threads = [](int p, auto f) { kolo::threads::run(p, f); };
  const auto messages = [](int p, auto f) { run_message_threads(p, f); };
  const auto sum = [](auto& comm, std::span<int> x, int& left) {
    return kolo::start_allreduce(comm, x, sum_that_throws{{&left}});
  };
  const auto parts = [](auto& comm, std::span<int> x, int& left) {
    const auto in = x.first(x.size() / 2), out = x.last(x.size() / 2);
    std::fill(in.begin(), in.end(), 3);
    return kolo::start_alltoall(comm, view_that_throws<int>{{&left}, in}, out);
  };
  const auto pair = [](auto& comm, std::span<int> x, int& left) {
    if (comm.rank() == 0) return kolo::start_receive(comm, view_that_throws<int>{{&left}, x}, 1);
    std::fill(x.begin(), x.end(), 3);
    return kolo::start_send(comm, x, 0);
  };
  const auto barrier = [](auto& comm) { kolo::barrier(comm); };
  const auto exchange = [](auto& comm) {
    int x = 0, y = 0;
    kolo::exchange(comm, std::span{&x, 1}, std::span{&y, 1}, 1 - comm.rank());
  };
  check_fails_for_good(threads, 1000, 250, sum, barrier);
  check_fails_for_good(threads, 1000, 250, sum, exchange);
  check_fails_for_good(messages, 100'000, 25'000, sum, barrier);
  check_fails_for_good(messages, 100'000, 25'000, sum, exchange);
  check_fails_for_good(threads, 2000, 1, parts, barrier);  // when it begins
  check_fails_for_good(messages, 2000, 1, parts, barrier);
  check_fails_for_good(threads, 2000, 1, pair, exchange);
}

namespace {

/// Throws when it claims, or releases, a piece for the `left`-th time.
template <class Base>
struct throws_within_a_piece : Base {
  using abilities = kolo::abilities<>;
  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit throws_within_a_piece(Args&&... args) : Base(std::forward<Args>(args)...) {}
  kolo::received_slot claim(int peer) {
    if (--claims_left == 0) throw std::runtime_error("a bug of the transport's");
    return Base::claim(peer);
  }
  void release(int peer) {
    if (--releases_left == 0) throw std::runtime_error("a bug of the transport's");
    Base::release(peer);
  }
  int claims_left = -1, releases_left = -1;
};

/// Rank 0's transport throws while rank 0 waits on another communicator: the other ranks learn of it, get back what they have lent, and come to that wait.
void check_lends_nothing_for_good(int p, int claims, int releases, auto start) {
  const auto said = on_threads(p, [&](auto& comm) {
    kolo::communicator<throws_within_a_piece<kolo::threads::transport>> breaks{comm.transport().split(0, comm.rank())};
    if (comm.rank() == 0) breaks.transport().claims_left = claims, breaks.transport().releases_left = releases;
    std::vector<int> x(200'000), y(200'000);
    auto request = start(breaks, x, y);
    std::string words;
    const auto wait = [&] {
      try {
        words += end_of([&] { request.wait(); });
      } catch (const std::runtime_error&) {
        words += "thrown";
      }
    };
    if (comm.rank() != 0) wait(), words += ", ";
    words += end_of([&] { kolo::barrier(comm, {.timeout = 20s}); });
    if (comm.rank() == 0) words += ", ", wait();
    return words;
  });
  CHECK(said[0] == "fine, thrown");
  for (std::size_t r = 1; r < said.size(); ++r) CHECK(said[r] == "peer failed 0, fine");
}

}  // namespace

TEST_CASE("a rank whose transport throws in a wait on another communicator keeps no piece that others have lent") {
  const auto pair = [](auto& comm, auto& x, auto& y) {
    return comm.rank() == 0 ? kolo::start_receive(comm, y, 1) : kolo::start_send(comm, x, 0);
  };
  const auto sum = [](auto& comm, auto& x, auto& y) {
    return kolo::start_allreduce(comm, x, y, kolo::sum, kolo::two_shot{});
  };
  check_lends_nothing_for_good(2, -1, 1, pair);
  check_lends_nothing_for_good(3, 2, -1, sum);
  check_lends_nothing_for_good(3, -1, 1, sum);
}

TEST_CASE("run throws if a view throws while the results of a destroyed request are written to it") {
  for (const bool has_ended : {false, true})
    CHECK(end_of([&] {
            kolo::threads::run(2, [&](auto& comm) {
              std::vector<float> x(33, 1);
              int left = -1;
              const view_that_throws<float> view{{&left}, x};
              auto request = kolo::start_allreduce(comm, view, kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::sum));
              if (has_ended) kolo::barrier(comm);
              if (comm.rank() == 0) left = 1;
            });
          }) == "peer failed 0");
}

TEST_CASE("a request that has failed remains failed: late data does not change its view") {
  const kolo::detail::shm::region_shape shape{2, {.timeout = 60s}};
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::communicator comm{memory, region, shape, 0};
  kolo::threads::transport late{memory, region, shape, 1};  // driven by hand
  const std::vector<int> mine(8, 5), theirs(8, 100);
  auto x = mine;
  auto request = kolo::start_allreduce(comm, x, kolo::sum, kolo::one_shot{}, {.timeout = 50ms});
  CHECK(end_of([&] { request.wait(); }) == "timeout 1");
  std::memcpy(late.exchange_slot(0), theirs.data(), sizeof(int) * theirs.size());
  late.post_exchange(0, sizeof(int) * theirs.size(), late.peek_exchange(0).tag);
  CHECK(end_of([&] { request.wait(); }) == "timeout 1");
  CHECK(end_of([&] { request.test(); }) == "timeout 1");
  CHECK(x == mine);
}

TEST_CASE("a failed communicator refuses split, start and plan") {
  std::latch given_up{1};
  const auto said = on_threads(2, [&](auto& comm) {
    if (comm.rank() == 1) given_up.wait();
    const auto first = end_of([&] { kolo::barrier(comm, {.timeout = 50ms}); });
    if (comm.rank() == 0) given_up.count_down();
    std::vector<int> x(10);
    return first + ' ' + end_of([&] { comm.split(0, 0); }) + ' ' +
           end_of([&] { kolo::start_allreduce(comm, x, kolo::sum).wait(); }) + ' ' +
           end_of([&] { kolo::plan_allreduce(comm, x, kolo::sum).run(); });
  });
  CHECK(said == all_say(2, "timeout 1 timeout 1 timeout 1 timeout 1"));
}

TEST_CASE("a late rank fails the split communicator, and its parent goes on") {
  std::latch have_child{2}, given_up{1};
  const auto said = on_threads(2, [&](auto& comm) {
    auto child = comm.split(0, 0);
    have_child.arrive_and_wait();
    if (comm.rank() == 1) given_up.wait();
    const auto in_child = end_of([&] { kolo::barrier(child, {.timeout = 50ms}); });
    if (comm.rank() == 0) given_up.count_down();
    return in_child + ' ' + end_of([&] { kolo::barrier(comm); });
  });
  CHECK(said == all_say(2, "timeout 1 fine"));
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// send, receive and exchange on 1 to 7 ranks, over slots, messages, counted slots and a simulated network, in each call mode; their errors.
#include <kolo/composite.hpp>
#include <kolo/dump.hpp>
#include <kolo/observe/counted.hpp>
#include <kolo/simulate/simulated.hpp>
#include <kolo/untyped.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>

#include "collectives/pairs.hpp"
#include "collectives/some_ranks.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/ends.hpp"

using namespace testing;

namespace {

/// The error text of a run of two ranks that make different calls.
template <class First, class Second>
std::string words_between_two(First first, Second second, kolo::threads::options o = {}) {
  return words_of([&] {
    kolo::threads::run(
        2, [&](kolo::threads::communicator& comm) { comm.rank() == 0 ? first(comm) : second(comm); }, o);
  });
}

}  // namespace

TEST_CASE("send, receive, exchange: each rank gets the other's elements") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          for (const std::size_t n : {0U, 1U, 17U, 1009U}) every_pair(comm, wrong, n);
        }) == "");
}

TEST_CASE("send, receive, exchange: many pieces, also by reference") {
  CHECK(on_ranks(3, [](auto& comm, complaints& wrong) {
          for (const std::size_t n : {20'000U, 300'007U}) every_pair(comm, wrong, n);
        }) == "");
  CHECK(on_ranks<over_messages>(3, [](auto& comm, complaints& wrong) { every_pair(comm, wrong, 100'003); }) == "");
}

TEST_CASE("send, receive, exchange: over slots without shared-memory functions") {
  for (const auto slot : {usual_slot, small_slot})
    CHECK(on_ranks<over_transport<kolo::counted<kolo::threads::transport>>>(
              3, [](auto& comm, complaints& wrong) { every_pair(comm, wrong, 211); }, slot) == "");
}

TEST_CASE("send, receive, exchange: in virtual time") {
  complaints wrong;
  kolo::virtual_time::run(5, {}, [&](kolo::virtual_time::communicator& comm) {
    for (const std::size_t n : {0U, 17U}) every_pair(comm, wrong, n);
  });
  CHECK(wrong.text() == "");
  const kolo::simulate::network wire{};
  std::vector<float> x(1 << 18), y(1 << 18);
  const auto took = kolo::virtual_time::run(2, wire, [&](kolo::virtual_time::communicator& comm) {
    comm.rank() == 0 ? kolo::send(comm, x, 1) : kolo::receive(comm, y, 0);
  });
  CHECK(took.seconds == Approx(wire.alpha() + (1 << 20) * wire.seconds_per_byte));
}

TEST_CASE("send, receive, exchange: a composite orders them with the calls of both transports") {
  CHECK(on_ranks(2, [](auto& base, complaints& wrong) {
          using wire = kolo::threads::transport;
          kolo::composite<wire, wire, kolo::by_kind<kolo::kind::send, kolo::kind::receive>> comm{
              base.transport().split(0, base.rank()), base.transport().split(0, base.rank())};
          every_pair(comm, wrong, 100);
        }) == "");
}

TEST_CASE("send, receive: views that are not contiguous, and elements whose type is known at run time") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int r = comm.rank(), partner = (r ^ 1) < comm.size() ? r ^ 1 : r;
          std::vector<int> a{r, 1}, b{r + 10}, out(6, -1);
          const kolo::strided<int, 1> every_other{out.data(), {3}, {2}};
          kolo::exchange(comm, kolo::bucket{a, b}, every_other, partner);
          expect_same(wrong, "strided", r, out, {partner, -1, 1, -1, partner + 10, -1});
          if (partner == r) return;
          double x = r, y = -1;
          const kolo::elements mine{&x, 1, kolo::element_type::float64}, theirs{&y, 1, kolo::element_type::float64};
          auto sent = kolo::start_send(comm, mine, partner);
          kolo::receive(comm, theirs, partner);
          sent.wait();
          wrong.expect(y == partner, "elements whose type is known at run time");
        }) == "");
}

TEST_CASE("send, receive: split and a request's destructor wait for them") {
  CHECK(on_ranks(2, [](auto& comm, complaints& wrong) {
          std::vector<int> x(70'000, comm.rank()), y(x.size(), -1);
          { auto a = kolo::start_send(comm, x, 1 - comm.rank()), b = kolo::start_receive(comm, y, 1 - comm.rank()); }
          wrong.expect(y.back() == 1 - comm.rank(), "dropped");
          auto a = kolo::start_send(comm, x, 1 - comm.rank()), b = kolo::start_receive(comm, y, 1 - comm.rank());
          const auto part = comm.split(0, 0);
          wrong.expect(part.size() == 2 && a.test() && b.test(), "split");
        }) == "");
}

TEST_CASE("send, receive, exchange: invalid arguments are refused") {
  CHECK(on_ranks(1, [](auto& comm, complaints& wrong) {
          std::vector<int> x(4), y(3);
          const auto refused = [&](auto call) { return end_of(call).starts_with("invalid argument"); };
          wrong.expect(words_of([&] { kolo::send(comm, x, 0); }).ends_with("itself: use kolo::exchange"),
                       "to the rank itself");
          wrong.expect(refused([&] { kolo::receive(comm, x, 1); }), "from a rank that does not exist");
          wrong.expect(refused([&] { kolo::exchange(comm, x, y, 0); }), "different lengths");
          wrong.expect(refused([&] { kolo::exchange(comm, x, x, 0); }), "in and out overlap");
          wrong.expect(refused([&] { kolo::exchange(comm, x, std::vector<int>(4), 0, -1); }), "a negative tag");
        }) == "");
}

TEST_CASE("send, receive, exchange: ranks that make different calls get a mismatch that names the difference") {
  std::vector<int> x(4), y(4), z(5);
  using comm_t = kolo::threads::communicator;
  const auto sends = [&](comm_t& c) { kolo::send(c, x, 1, 3); };
  CHECK(contains(words_between_two(sends, [&](comm_t& c) { kolo::receive(c, y, 0, 4); }), "has the tag 3, and not 4"));
  CHECK(contains(words_between_two(sends, [&](comm_t& c) { kolo::receive(c, z, 0, 3); }), "or not as many"));
  CHECK(contains(words_between_two(sends, [&](comm_t& c) { kolo::receive(c, std::vector<float>(4), 0, 3); }),
                 "another type"));
  CHECK(contains(words_between_two(sends, [&](comm_t& c) { kolo::receive(c, std::vector<float>(0), 0, 3); }),
                 "not as many"));
  CHECK(contains(words_between_two(sends, [&](comm_t& c) { kolo::exchange(c, z, y, 0); }), "mismatch") == false);
  const auto kinds = words_between_two(sends, [&](comm_t& c) { kolo::exchange(c, x, y, 0); });
  CHECK(contains(kinds, "calls exchange, rank 0 calls send"));
  const auto back =
      words_between_two([&](comm_t& c) { kolo::exchange(c, x, z, 1); }, [&](comm_t& c) { kolo::receive(c, y, 0); });
  CHECK(contains(back, "in has 4 elements, and out has 5"));
  const auto receives =
      words_between_two([&](comm_t& c) { kolo::exchange(c, x, y, 1); }, [&](comm_t& c) { kolo::receive(c, y, 0); });
  CHECK(contains(receives, "calls receive, rank 0 calls exchange"));
  const auto collective = words_between_two([&](comm_t& c) { kolo::allreduce(c, x, kolo::sum); },
                                            [&](comm_t& c) { kolo::receive(c, y, 0); });
  CHECK((contains(collective, "calls allreduce") && contains(collective, "receive")));
}

TEST_CASE("send, receive, exchange: checked ranks report the difference and the line of each call") {
  const auto well = [](auto& comm) {
    complaints w;
    every_pair(comm, w, 100);
  };
  for (const std::size_t slot : {0U, 1024U})  // with short slots, the compared data goes by reference, too
    CHECK(words_between_two(well, well, {.slot_bytes = slot, .checked = true}) == "");
  std::vector<int> x(4), y(5), z(4);
  const auto words =
      words_between_two([&](auto& c) { kolo::send(c, x, 1), kolo::send(c, x, 1); },
                        [&](auto& c) { kolo::receive(c, z, 0), kolo::receive(c, y, 0); }, {.checked = true});
  CHECK(words.find("receive #2") != std::string::npos);
  CHECK(words.find("the count differs: rank 1 calls receive of 5 int, at pairs.cpp") != std::string::npos);
  CHECK(words.find("rank 0 calls send of 4 int, at pairs.cpp") != std::string::npos);
  const auto none = words_between_two([&](auto& c) { kolo::send(c, std::span<int>{}, 1); },
                                      [&](auto& c) { kolo::receive(c, y, 0); }, {.checked = true});
  CHECK(none.find("rank 0 calls send of 0 int, at pairs.cpp") != std::string::npos);
  const auto tags = words_between_two([&](auto& c) { kolo::start_exchange(c, x, z, 1, 3).wait(); },
                                      [&](auto& c) { kolo::start_exchange(c, x, z, 0, 4).wait(); }, {.checked = true});
  CHECK(tags.find("the tag differs") != std::string::npos);
}

TEST_CASE("exchange: a rank that does not call it is named, with the pair's operation number") {
  std::atomic<bool> over{false};
  std::string words, seen;
  end_of([&] {
    kolo::threads::run(2, [&](kolo::threads::communicator& comm) {
      std::vector<int> x(4), y(4);
      kolo::exchange(comm, x, y, 1 - comm.rank());
      if (comm.rank() == 1) return over.wait(false);
      words = words_of([&] { kolo::receive(comm, y, 1, {.timeout = std::chrono::milliseconds{100}}); });
      seen = kolo::dump(comm);
      over = true;
      over.notify_all();
    });
  });
  CHECK(words.find("receive #2") != std::string::npos);
  CHECK(words.find("rank 1 is late") != std::string::npos);
  CHECK(seen.find("rank 0 failed in receive #2, waiting for rank 1") != std::string::npos);
  CHECK(seen.find("#1 exchange with rank 1, 16 bytes") != std::string::npos);
}

TEST_CASE("the timeout of a pair operation begins when those queued before it for the same rank have ended") {
  const kolo::simulate::network wire{};
  constexpr std::size_t n = 1 << 18;
  const double one = wire.alpha() + sizeof(float) * n * wire.seconds_per_byte;
  using options = kolo::virtual_time::transport::options;
  const options soon{.timeout = std::chrono::nanoseconds{std::llround(2e9 * one)}}, none{};
  for (const bool tests : {false, true})
    for (const options& before : {soon, none})
      CHECK(words_of([&] {
              kolo::virtual_time::run(2, wire, [&](kolo::virtual_time::communicator& comm) {
                std::vector<std::vector<float>> x(8, std::vector<float>(n));
                std::vector<decltype(kolo::start_send(comm, x[0], 1))> all;
                for (auto& each : x) {
                  const options& o = all.size() < 7 ? before : soon;
                  all.push_back(comm.rank() == 0 ? kolo::start_receive(comm, each, 1, o)
                                                 : kolo::start_send(comm, each, 0, o));
                }
                while (tests && !all.back().test()) continue;
                while (!all.empty()) all.back().wait(), all.pop_back();
              });
            }) == "");
  CHECK(words_of([&] {  // also if the one before it has been waited for longer than this timeout
          kolo::virtual_time::run(2, wire, [&](kolo::virtual_time::communicator& comm) {
            std::vector<float> x(n), y(n);
            if (comm.rank() == 1) {
              comm.transport().compute(10.5 * one);
              kolo::send(comm, x, 0);
              return kolo::send(comm, y, 0);
            }
            auto first = kolo::start_receive(comm, x, 1), second = kolo::start_receive(comm, y, 1, soon);
            first.test(), first.test();  // the first posts its message
            comm.transport().compute(10 * one);
            second.wait();
          });
        }) == "");
}

TEST_CASE("a wait for a queued pair operation throws the failure of the one before it") {
  std::vector<int> x(4), y(4), z(4);
  const auto says_what = [&](auto start_all) {
    const auto words =
        words_between_two(start_all, [&](auto& c) { kolo::allreduce(c, std::span{z}.first(1), kolo::sum); },
                          {.timeout = std::chrono::seconds{20}});
    INFO(words);
    CHECK(words.find("rank 0 calls receive, rank 1 calls allreduce") != std::string::npos);
  };
  says_what([&](auto& c) {
    auto first = kolo::start_receive(c, x, 1), second = kolo::start_receive(c, y, 1);
    second.wait();
  });
  says_what([&](auto& c) {  // the exchange is blocked in one direction, and blocks the other
    auto first = kolo::start_receive(c, x, 1);
    auto second = kolo::start_exchange(c, x, y, 1);
    auto third = kolo::start_send(c, x, 1);
    while (!third.test()) continue;
  });
}

namespace {

/// The processor time that rank 0 takes to destroy n requests that have failed, from the last to the first or in the order in which they were started.
std::chrono::duration<double> time_of_abandoning(std::size_t n, bool in_reverse) {
  const auto thread_time = [] {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
  };
  std::chrono::duration<double> took{};
  const auto said = on_threads(2, [&](auto& comm) -> std::string {
    std::vector<int> x(n, 1);
    if (comm.rank() == 1) return kolo::send(comm, std::span{x.data(), 1}, 0, 7), "sent";
    std::vector<decltype(kolo::start_receive(comm, x, 1))> all;
    for (int& each : x) all.push_back(kolo::start_receive(comm, std::span{&each, 1}, 1));
    const auto end = end_of([&] { all[0].wait(); });
    const auto begin = thread_time();
    for (std::size_t i = 0; i < n; ++i) {
      const auto gone = std::move(all[in_reverse ? n - 1 - i : i]);
    }
    took = thread_time() - begin;
    return end;
  });
  CHECK(said[0].starts_with("mismatch"));
  return took;
}

}  // namespace

TEST_CASE("receive: many requests that fail are abandoned in either order without a search for each") {
  // 32 times as many take about 32 times as long; with a search for each, over 100 times. A ratio, so that no host is too slow.
  for (const bool in_reverse : {true, false})
    CHECK(time_of_abandoning(16'000, in_reverse) < 80 * time_of_abandoning(500, in_reverse));
}

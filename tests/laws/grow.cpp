// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// grow, for ranks that are threads: newcomers that join, that do not, and that fail; and the group, which goes on.
#include "laws/grow_laws.hpp"

#include <kolo/checked.hpp>
#include <kolo/launch/join.hpp>

#include <optional>
#include <thread>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/ending_memory.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

/// A thread that joins and runs f(comm). `result` waits for its end: what f returned, or the error.
class joining {
 public:
  template <class F>
  joining(const std::string& meeting, F f, const kolo::threads::options& o = {.timeout = 60s})
      : thread_{[this, meeting, f, o] {
          std::string words;
          const auto end = words_of([&] {
            auto comm = kolo::threads::join(meeting, o);
            words = f(comm);
          });
          words_ = words + end;
        }} {}
  explicit joining(const std::string& meeting)
      : joining{meeting, [](auto& comm) { return laws::works_after_growing(comm, -1, comm.size()); }} {}
  std::string result() {
    thread_.join();
    return words_;
  }

 private:
  std::string words_{};
  std::jthread thread_;
};

[[noreturn]] void refuse() { throw kolo::error{kolo::errc::out_of_resources, "out of memory"}; }
/// Throws out_of_resources at use `uses_left` in the thread that has set it.
using running_out = ending_memory<kolo::detail::shm::private_mapping, refuse>;

}  // namespace

TEST_CASE("grow: threads join, and all ranks work together") {
  for (const auto& [members, newcomers] : {std::pair{1, 1}, {3, 1}, {2, 2}, {4, 3}}) {
    const auto meeting = laws::fresh_meeting();
    const int come = newcomers, in_all = members + newcomers;
    std::vector<std::optional<joining>> all(static_cast<std::size_t>(newcomers));
    for (auto& n : all) n.emplace(meeting);
    CHECK(on_threads(members, [&](auto& comm) {
            auto more = comm.grow(meeting, {.timeout = 60s, .newcomers = come});
            return laws::works_after_growing(more, comm.rank(), in_all) +
                   laws::is_whole(comm, comm.rank(), comm.size());
          }) == all_say(members, ""));
    for (auto& n : all) CHECK(n->result() == "");
  }
}

TEST_CASE("grow: threads grow twice, and after shrink") {
  const auto meeting = laws::fresh_meeting();
  const auto stays = [&](auto& comm) -> std::string {
    while (comm.size() < 4) comm = comm.grow(meeting, {.timeout = 60s});
    return laws::works_after_growing(comm, -1, 4);
  };
  joining first{meeting, stays}, second{meeting, stays};
  CHECK(on_threads(3, [&](auto& comm) -> std::string {
          if (comm.rank() == 2) return "";
          comm = comm.shrink();
          return stays(comm);
        }) == all_say(3, ""));
  CHECK(first.result() == "");
  CHECK(second.result() == "");
}

TEST_CASE("grow: operations that were started before end first, and the old communicator still works") {
  const auto meeting = laws::fresh_meeting();
  joining newcomer{meeting};
  CHECK(on_threads(3, [&](auto& comm) -> std::string {
          std::vector<int> x(10'000, comm.rank());
          auto in_flight = kolo::start_allreduce(comm, x, kolo::sum);
          auto more = comm.grow(meeting, {.timeout = 60s});
          const bool is_done = x.back() == 3;
          in_flight.wait();
          return (is_done ? "" : "not waited for") + laws::works_after_growing(more, comm.rank(), 4) +
                 laws::is_whole(comm, comm.rank(), 3);
        }) == all_say(3, ""));
  CHECK(newcomer.result() == "");
}

TEST_CASE("grow: with no or too few newcomers all ranks get an error and go on; a waiting thread joins the next grow") {
  const auto meeting = laws::fresh_meeting();
  joining spare{meeting};
  const auto words = on_threads(2, [&](auto& comm) {
    const auto first = words_of([&] { comm.grow(meeting + "'s neighbour", {.timeout = 20ms}); });
    const auto of_two = [&](std::chrono::nanoseconds timeout) {
      return words_of([&] { comm.grow(meeting, {.timeout = timeout, .newcomers = 2}); });
    };
    auto second = of_two(300ms);
    if (second.find("nobody") != second.npos) second = of_two(10s);  // the thread has not run for so long
    auto more = comm.grow(meeting, {.timeout = 60s});
    return first + '\n' + second + '\n' + laws::works_after_growing(more, comm.rank(), 3);
  });
  for (const auto& w : words) {
    INFO(w);
    CHECK(w.find(": nobody came to join within ") != std::string::npos);
    CHECK(w.find(": only 1 of 2 came to join within ") != std::string::npos);
    CHECK(w.ends_with(" s\n"));
  }
  CHECK(spare.result() == "");
}

TEST_CASE("grow: options that differ or are invalid are refused on all ranks, which go on") {
  CHECK(on_threads(3,
                   [](auto& comm) {
                     const auto end = [&](const std::string& meeting, const kolo::grow_options& o) {
                       return end_of([&] { comm.grow(meeting, o); }) + ", ";
                     };
                     return end(comm.rank() == 1 ? "a" : "b", {.timeout = 60s}) +
                            end("c", {.timeout = comm.rank() * 1s + 60s}) + end("d", {.newcomers = comm.rank() + 1}) +
                            end("e", {.newcomers = 0}) + end("", {}) +
                            end("f", {.timeout = comm.rank() == 1 ? -1s : 60s}) + laws::is_whole(comm, comm.rank(), 3);
                   }) ==
        all_say(
            3,
            "invalid argument -1, invalid argument -1, invalid argument -1, invalid argument -1, invalid argument -1, "
            "invalid argument -1, "));
  CHECK(words_of([] { kolo::threads::join(""); }) == "kolo: join takes a name that is not empty");
}

TEST_CASE("grow: of two groups with one name the second gets a mismatch, and the first the newcomer") {
  const auto meeting = laws::fresh_meeting();
  std::optional<joining> newcomer;
  const auto grows = [&](auto& comm) -> std::string {
    try {
      auto more = comm.grow(meeting, {.timeout = 60s});
      return laws::works_after_growing(more, comm.rank(), 3);
    } catch (const kolo::error& e) {
      if (comm.rank() == 0) newcomer.emplace(meeting);  // only now, so that the others still wait
      return e.code() == kolo::errc::mismatch ? "second" : e.what();
    }
  };
  std::vector<std::string> first, second;
  std::jthread other{[&] { second = on_threads(2, grows); }};
  first = on_threads(2, grows);
  other.join();
  if (first[0] == "second") std::swap(first, second);
  CHECK(first == all_say(2, ""));
  CHECK(second == all_say(2, "second"));
  REQUIRE(newcomer);
  CHECK(newcomer->result() == "");
}

TEST_CASE("grow: a rank or newcomer without memory fails grow on all ranks, which go on") {
  const auto meeting = laws::fresh_meeting();
  using comm_type = kolo::communicator<kolo::detail::shm::slot_transport<running_out>>;
  const kolo::detail::shm::region_shape shape{2, {.timeout = 60s}};
  const auto two_grow = [&](running_out memory, int out, int use) {
    const auto region = comm_type::transport_type::initialise(memory, shape);
    return on_threads(2, [&](auto& outer) {
      comm_type comm{memory, region, shape, outer.rank()};
      kolo::barrier(outer);
      if (outer.rank() == out) running_out::uses_left = use;
      const auto end = end_of([&] { comm.grow(meeting, {.timeout = 60s}); });
      running_out::uses_left = -1;
      return end + laws::is_whole(comm, comm.rank(), 2);
    });
  };
  for (const auto& [rank, uses] : {std::pair{0, 1}, {0, 2}, {0, 3}, {1, 1}, {2, 2}}) {
    const int out = rank, use = uses;  // out of memory at that use
    running_out memory;
    std::string words;
    std::jthread newcomer{[&] {
      if (out == 2) running_out::uses_left = use;
      do words = end_of([&] { comm_type{kolo::detail::launch::join<running_out>(meeting, {.timeout = 60s})}; });
      while (out < 2 && words != "fine");  // it gets the failure, or none, and joins again
    }};
    INFO("rank " << out << ", use " << use);
    CHECK(two_grow(memory, out, use) == all_say(2, out == 2   ? "peer died 2"
                                                   : out == 1 ? "out of resources 1"
                                                              : "out of resources -1"));
    if (out < 2) CHECK(two_grow(memory, -1, 0) == all_say(2, "fine"));
    newcomer.join();
    CHECK(words == (out == 2 ? "out of resources -1" : "fine"));
    if (out != 1)
      CHECK(memory.regions_kept() == 0);  // otherwise the newcomer may have got the region, and still be there
  }
}

TEST_CASE("grow: a thread that gets a region which has been discarded joins the next group") {
  namespace launch = kolo::detail::launch;
  using memory_of_threads = kolo::detail::shm::private_mapping;
  const auto meeting = laws::fresh_meeting();
  joining newcomer{meeting};
  const kolo::detail::shm::region_shape shape{1, {.timeout = 60s}};
  launch::welcoming<memory_of_threads> first{shape, launch::meeting_place<memory_of_threads>(meeting), 1, 60s};
  REQUIRE_FALSE(first.collect(launch::progress_only));
  memory_of_threads memory;
  const auto region = kolo::threads::transport::initialise(memory, shape.with_ranks(2));
  memory.discard(region, shape.with_ranks(2).bytes());
  first.admit(memory, region);
  CHECK(on_threads(1, [&](auto& comm) {
          auto more = comm.grow(meeting, {.timeout = 20s});
          return laws::works_after_growing(more, 0, 2);
        }) == all_say(1, ""));
  CHECK(newcomer.result() == "");
}

TEST_CASE("grow: in checked mode another call on one rank is a mismatch on both") {
  const auto meeting = laws::fresh_meeting();
  CHECK(on_threads(2,
                   [&](auto& comm) {
                     return end_of([&] {
                              if (comm.rank() == 1) kolo::barrier(comm);
                              else comm.grow(meeting, {.timeout = 60s});
                            })
                         .substr(0, 8);
                   },
                   {.timeout = 60s, .checked = true}) == all_say(2, "mismatch"));
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shrink, for ranks that are threads: its laws, and ranks that are lost in different ways.
#include "laws/shrink_laws.hpp"

#include <kolo/observe/counted.hpp>
#include <kolo/observe/faulty.hpp>
#include <kolo/observe/traced.hpp>

#include <latch>
#include <stdexcept>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/ending_memory.hpp"
#include "support/routed_threads.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

template <class Law>
void holds(Law law) {
  for (const int p : {1, 2, 3, 4, 7}) {
    CHECK(on_threads(p, law) == all_say(p, ""));
    std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
    run_message_threads(p, [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = law(comm); });
    CHECK(said == all_say(p, ""));
    for (const auto& nodes : {in_threes(p), together(p)}) {
      run_routed_threads(nodes,
                         [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = law(comm) + " routed"; });
      CHECK(said == all_say(p, " routed"));
    }
  }
}

[[noreturn]] void refuse() { throw kolo::error{kolo::errc::out_of_resources, "out of memory"}; }
/// Throws out_of_resources at use `uses_left` in the thread that has set it.
using running_out = ending_memory<kolo::detail::shm::private_mapping, refuse>;

}  // namespace

TEST_CASE("shrink: laws") {
  holds(laws::shrinking_without_loss_keeps_all);
  holds(laws::shrinking_leaves_out_who_left);
  holds(laws::shrinking_calls_those_who_wait);
  holds(laws::shrinking_happens_once);
}

TEST_CASE("shrink: a communicator of one rank, and decorated transports") {
  kolo::self::communicator alone;
  CHECK(laws::shrinking_without_loss_keeps_all(alone) == "");
  const auto decorated = [](auto& comm, auto transport) {
    kolo::communicator<typename decltype(transport)::type> mine{std::move(comm.transport())};
    return laws::shrinking_without_loss_keeps_all(mine);
  };
  using threads = kolo::threads::transport;
  CHECK(on_threads(3, [&](auto& comm) { return decorated(comm, std::type_identity<kolo::faulty<threads>>{}); }) ==
        all_say(3, ""));
  CHECK(on_threads(3, [&](auto& comm) { return decorated(comm, std::type_identity<kolo::traced<threads>>{}); }) ==
        all_say(3, ""));
  CHECK(on_threads(3, [&](auto& comm) { return decorated(comm, std::type_identity<kolo::counted<threads>>{}); }) ==
        all_say(3, ""));
}

TEST_CASE("shrink: a rank throws between operations, and the others go on") {
  for (int p = 2; p <= 4; ++p)
    for (int victim = 0; victim < p; ++victim)
      CHECK(on_threads(p, [&](auto& comm) -> std::string {
              const auto first = end_of([&] {
                for (int i = 0; i < 5; ++i) {
                  if (comm.rank() == victim && i == 3) throw std::runtime_error("an error");
                  laws::count_by_sum(comm);
                }
              });
              auto rest = comm.shrink();
              return first + laws::is_whole(rest, comm.rank() - (comm.rank() > victim ? 1 : 0), p - 1);
            }) == all_but(victim, p, "peer failed " + std::to_string(victim)));
}

TEST_CASE("shrink: after a mismatch all ranks go on") {
  CHECK(on_threads(3, [](auto& comm) -> std::string {
          int x[5]{};
          const auto first = end_of([&] {
            if (comm.rank() == 1) kolo::allreduce(comm, x, kolo::max);
            else kolo::allreduce(comm, x, kolo::sum);
            kolo::barrier(comm);
          });
          auto rest = comm.shrink();
          return first.substr(0, 8) + laws::is_whole(rest, comm.rank(), 3);
        }) == all_say(3, "mismatch"));
}

TEST_CASE("shrink: a rank that is too late is left out, and gets an error") {
  std::latch recovered_count{2};
  const auto said = on_threads(3, [&](auto& comm) -> std::string {
    if (comm.rank() == 1) {
      recovered_count.wait();
      return words_of([&] { comm.shrink(); }) + " | " + end_of([&] { kolo::barrier(comm); });
    }
    auto rest = comm.shrink({.timeout = 2s});
    recovered_count.count_down();
    return laws::is_whole(rest, comm.rank() / 2, 2);
  });
  CHECK(said[0] == "");
  CHECK(said[2] == "");
  CHECK(said[1].starts_with(
      "kolo: shrink, rank 1: rank 1 came too late: the others have continued without it | peer failed "));
}

TEST_CASE("shrink: split communicators and their parent shrink separately") {
  CHECK(on_threads(5, [](auto& comm) -> std::string {
          auto group = comm.split(comm.rank() % 2, -comm.rank());  // 4 2 0 and 3 1
          if (comm.rank() == 2) return "";
          std::string said;
          if (comm.rank() % 2 == 0) {
            auto rest = group.shrink();
            said = laws::is_whole(rest, comm.rank() == 4 ? 0 : 1, 2);
          } else {
            kolo::barrier(group);
          }
          auto rest = comm.shrink();
          return said + laws::is_whole(rest, comm.rank() - (comm.rank() > 2 ? 1 : 0), 4);
        }) == all_say(5, ""));
}

TEST_CASE("shrink: no rank waits for one without memory, whether or not it leaves, and no memory is kept") {
  using comm_type = kolo::communicator<kolo::detail::shm::slot_transport<running_out>>;
  for (const bool stays : {false, true})
    for (const int victim : {0, 1, 2})
      for (int uses = 1; uses <= 5; ++uses) {
        INFO("rank " << victim << ", use " << uses << (stays ? ", stays" : ""));
        const kolo::detail::shm::region_shape shape{3, {.timeout = 60s}};
        running_out memory;
        const auto region = comm_type::transport_type::initialise(memory, shape);
        const auto said = on_threads(3, [&](auto& outer) -> std::string {
          std::string end;
          {
            comm_type comm{memory, region, shape, outer.rank()};
            kolo::barrier(outer);
            if (comm.rank() == victim) running_out::uses_left = uses;
            end = end_of([&] {
                    auto rest = comm.shrink();
                    running_out::uses_left = -1;
                    end = laws::is_whole(rest, comm.rank() - (comm.rank() > victim && rest.size() < 3 ? 1 : 0),
                                         rest.size());
                  }) +
                  end;
            if (stays) kolo::barrier(outer);
          }
          return end;
        });
        CHECK((said == all_say(3, "fine") || said == all_but(victim, 3, "fine", "out of resources -1")));
        CHECK(memory.regions_kept() == 0);
      }
}

TEST_CASE("shrink: symmetric memory is made anew") {
  std::latch have_it{3};
  CHECK(on_threads(3, [&](auto& comm) -> std::string {
          auto before = kolo::symmetric<int>(comm, 10);
          have_it.arrive_and_wait();
          if (comm.rank() == 0) return "";
          auto rest = comm.shrink();
          auto after = kolo::symmetric<int>(rest, 10);
          after[3] = rest.rank() + 1;
          kolo::barrier(rest);
          return before[3] == 0 && after.of(0)[3] == 1 && after.of(1)[3] == 2
                     ? ""
                     : "memory does not contain what peers wrote";
        }) == all_say(3, ""));
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws for both sides of a composite: each behaves like its transport, and they fail together.
#include "laws/message_laws.hpp"
#include "laws/shared_memory_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/composite_threads.hpp"

using namespace testing;

namespace {

using both = composite_threads<>;
static_assert(kolo::MessageTransport<both::first_type::transport_type> &&
              !kolo::SlotTransport<both::first_type::transport_type>);
static_assert(kolo::SharedMemoryTransport<both::second_type::transport_type> &&
              !kolo::MessageTransport<both::second_type::transport_type>);

const kolo::threads::options soon{.timeout = std::chrono::seconds{20}};

template <class F>
std::vector<std::string> each_says(int p, F f) {
  std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
  run_composite_threads(
      p, [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = f(comm); }, soon);
  return said;
}
template <class Law>
std::vector<std::string> in_first(int p, Law law) {
  return each_says(p, [&](auto& comm) { return law(comm.first().transport()); });
}
template <class Law>
std::vector<std::string> in_second(int p, Law law) {
  return each_says(p, [&](auto& comm) { return law(comm.second().transport()); });
}

template <class Law>
void obeys(Law law, std::initializer_list<int> sizes = {1, 2, 3, 4, 7}) {
  for (const int p : sizes) {
    CHECK(in_first(p, law) == all_say(p, ""));
    CHECK(in_second(p, law) == all_say(p, ""));
  }
}

}  // namespace

TEST_CASE("composite: rank, size, timeout and place are constant") { obeys(laws::is_constant); }
TEST_CASE("composite: a failure wakes all ranks") { obeys(laws::failure_wakes_everybody); }
TEST_CASE("composite: a timeout fails all ranks") { obeys(laws::deadline_passes, {2, 3}); }
TEST_CASE("composite: split orders ranks by key and rank") { obeys(laws::split_orders_by_key_and_rank); }

TEST_CASE("composite: a failure in another group is passed on") {
  obeys(laws::passes_on_what_failed_elsewhere, {3, 4, 7});
}

TEST_CASE("composite: messages on one side, slots on the other") {
  for (const int p : {2, 3, 7}) {
    CHECK(in_first(p, laws::messages_arrive_in_order) == all_say(p, ""));
    CHECK(in_second(p, laws::pieces_arrive_in_order) == all_say(p, ""));
    CHECK(in_second(p, laws::exchanges_need_no_release) == all_say(p, ""));
  }
  CHECK(in_first(3, laws::another_tag_is_a_mismatch)[0] == "");
}

TEST_CASE("composite: the first failure stays, on whichever side a rank fails") {
  for (const int p : {1, 2, 3, 4, 7})
    for (int k = 0; k < 20; ++k) {
      const auto said = each_says(p, [](auto& comm) {
        return comm.rank() % 2 == 0 ? laws::keeps_the_first_failure(comm.first().transport())
                                    : laws::keeps_the_first_failure(comm.second().transport());
      });
      CHECK(said[0].starts_with("first "));
      CHECK(said == all_say(p, said[0]));
    }
}

TEST_CASE("composite: a failure on one side fails the other") {
  for (const int p : {2, 3, 4}) {
    const auto said = each_says(p, [](auto& comm) -> std::string {
      if (comm.rank() == 0) comm.first().transport().fail(laws::failure_of(0));
      const auto f = comm.rank() % 2 == 0 ? laws::end_of_waiting(comm.first().transport(), 0)
                                          : laws::end_of_waiting(comm.second().transport(), 0);
      const kolo::failure* later = comm.second().transport().failed();
      return f.peer == 0 && later && later->peer == 0 && comm.first().transport().failed()->peer == 0
                 ? ""
                 : "another failure than rank 0's";
    });
    CHECK(said == all_say(p, ""));
  }
}

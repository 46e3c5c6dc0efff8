// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws for two transports as one: on several nodes those of messages, on one node those of slots as well.
#include "laws/message_laws.hpp"
#include "laws/shared_memory_laws.hpp"
#include "support/catch.hpp"
#include "support/routed_threads.hpp"

using namespace testing;

namespace {

static_assert(kolo::MessageTransport<routed_transport> && kolo::SharedMemoryTransport<routed_transport>);

template <class Law>
std::vector<std::string> on_nodes(const std::vector<int>& nodes, Law law, std::size_t slot_bytes = 64 * 1024) {
  std::vector<std::string> said(nodes.size(), "nothing");
  run_routed_threads(nodes, [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = law(comm.transport()); },
                     {.timeout = std::chrono::seconds{20}, .slot_bytes = slot_bytes});
  return said;
}
std::vector<std::string> all_say(std::size_t p, const std::string& what) { return std::vector<std::string>(p, what); }

template <class Law>
void obeys(Law law, std::initializer_list<int> sizes = {1, 2, 3, 4, 7}) {
  for (const int p : sizes)
    for (const auto& nodes : {in_threes(p), by_turns(p), together(p)})
      CHECK(on_nodes(nodes, law) == all_say(nodes.size(), ""));
}

}  // namespace

TEST_CASE("routed: rank, size, timeout and place are constant") { obeys(laws::is_constant); }
TEST_CASE("routed: a failure wakes all ranks") { obeys(laws::failure_wakes_everybody); }
TEST_CASE("routed: a failure of the last rank wakes all ranks") { obeys(laws::failure_of_the_last_wakes_everybody); }
TEST_CASE("routed: a timeout fails all ranks") { obeys(laws::deadline_passes, {2, 3, 4}); }
TEST_CASE("routed: split orders ranks by key and rank") {
  obeys(laws::split_orders_by_key_and_rank, {1, 2, 3, 4, 7, 12});
}
TEST_CASE("routed: a failure in another group is passed on") {
  obeys(laws::passes_on_what_failed_elsewhere, {3, 4, 7});
}
TEST_CASE("routed: messages arrive in order") { obeys(laws::messages_arrive_in_order); }

TEST_CASE("routed: the first failure stays") {
  for (const auto& nodes : {in_threes(7), by_turns(4), by_turns(2), together(3)})
    for (int k = 0; k < 20; ++k) {
      const auto said = on_nodes(nodes, laws::keeps_the_first_failure);
      CHECK(said[0].starts_with("first "));
      CHECK(said == all_say(nodes.size(), said[0]));
    }
}

TEST_CASE("routed: another tag is a mismatch, within a node and between nodes") {
  for (const auto& nodes : {in_threes(4), by_turns(3), together(2)}) {
    CHECK(on_nodes(nodes, laws::another_tag_is_a_mismatch)[0] == "");
    const auto said = on_nodes(nodes, laws::a_mismatch_is_told_alike);
    CHECK(said[0].find(", rank ") != std::string::npos);
    CHECK(said == all_say(nodes.size(), said[0]));
  }
}

TEST_CASE("routed: on one node it has slots") {
  for (const int p : {1, 2, 3})
    for (const std::size_t slot_bytes : {std::size_t{64 * 1024}, std::size_t{33}}) {
      const auto right = all_say(static_cast<std::size_t>(p), "");
      CHECK(on_nodes(together(p), laws::pieces_arrive_in_order, slot_bytes) == right);
      CHECK(on_nodes(together(p), laws::credits_come_back, slot_bytes) == right);
      CHECK(on_nodes(together(p), laws::exchanges_need_no_release, slot_bytes) == right);
      CHECK(on_nodes(together(p), laws::replies_come_back, slot_bytes) == right);
      CHECK(on_nodes(together(p), laws::spare_buffers_pass_to_who_reads_them, slot_bytes) == right);
    }
}

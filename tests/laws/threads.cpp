// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws for the transports within one process: self, threads, and messages over threads.
#include "laws/memory_laws.hpp"
#include "laws/message_laws.hpp"
#include "laws/shared_memory_laws.hpp"
#include "laws/slot_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/message_threads.hpp"

using namespace testing;

namespace {

static_assert(kolo::SlotTransport<kolo::self::transport> && kolo::SharedMemoryTransport<kolo::threads::transport> &&
              !kolo::SharedMemoryTransport<kolo::self::transport>);
static_assert(kolo::MessageTransport<message_transport> && !kolo::SlotTransport<message_transport>);
static_assert(kolo::SharesMemory<kolo::threads::transport> && !kolo::SharesMemory<kolo::self::transport>);

constexpr int sizes[] = {1, 2, 3, 4, 7};

template <class Law>
std::vector<std::string> in_messages(int p, Law law) {
  std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
  run_message_threads(p, [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = law(comm.transport()); });
  return said;
}
template <class Law>
std::vector<std::string> in_slots(int p, Law law, std::size_t slot_bytes = 64 * 1024) {
  return on_threads(p, [&](auto& comm) { return law(comm.transport()); },
                    {.timeout = std::chrono::seconds{20}, .slot_bytes = slot_bytes});
}
template <class Law>
std::string alone(Law law) {
  kolo::self::transport t;
  return law(t);
}

/// Any rank may have failed first; all must agree on which.
void expect_one_winner(const std::vector<std::string>& said) {
  CHECK(said[0].starts_with("first "));
  CHECK(said == all_say(static_cast<int>(said.size()), said[0]));
}

}  // namespace

TEST_CASE("Transport: rank, size, timeout and place are constant") {
  CHECK(alone(laws::is_constant) == "");
  for (const int p : sizes) {
    CHECK(in_slots(p, laws::is_constant) == all_say(p, ""));
    CHECK(in_messages(p, laws::is_constant) == all_say(p, ""));
  }
}

TEST_CASE("Transport: the first failure stays") {
  expect_one_winner({alone(laws::keeps_the_first_failure)});
  for (const int p : sizes)
    for (int k = 0; k < 20; ++k) expect_one_winner(in_slots(p, laws::keeps_the_first_failure));
  expect_one_winner(in_messages(3, laws::keeps_the_first_failure));
}

TEST_CASE("Transport: a failure wakes all ranks") {
  CHECK(alone(laws::failure_wakes_everybody) == "");
  for (const int p : sizes) {
    CHECK(in_slots(p, laws::failure_wakes_everybody) == all_say(p, ""));
    CHECK(in_messages(p, laws::failure_wakes_everybody) == all_say(p, ""));
    CHECK(in_slots(p, laws::failure_of_the_last_wakes_everybody) == all_say(p, ""));
  }
}

TEST_CASE("Transport: a timeout fails all ranks") {
  for (const int p : {2, 3}) {
    CHECK(in_slots(p, laws::deadline_passes) == all_say(p, ""));
    CHECK(in_messages(p, laws::deadline_passes) == all_say(p, ""));
  }
}

TEST_CASE("Transport: split orders ranks by key and rank") {
  CHECK(alone(laws::split_orders_by_key_and_rank) == "");
  for (const int p : {1, 2, 3, 4, 7, 12, 17}) {
    CHECK(in_slots(p, laws::split_orders_by_key_and_rank) == all_say(p, ""));
    CHECK(in_messages(p, laws::split_orders_by_key_and_rank) == all_say(p, ""));
  }
}

TEST_CASE("Transport: a failure in another group is passed on") {
  for (const int p : {3, 4, 7}) {
    CHECK(in_slots(p, laws::passes_on_what_failed_elsewhere) == all_say(p, ""));
    CHECK(in_messages(p, laws::passes_on_what_failed_elsewhere) == all_say(p, ""));
  }
}

TEST_CASE("the laws of SlotTransport") {
  for (const int p : sizes)
    for (const std::size_t slot_bytes : {std::size_t{64 * 1024}, std::size_t{128}, std::size_t{33}}) {
      CHECK(in_slots(p, laws::pieces_arrive_in_order, slot_bytes) == all_say(p, ""));
      CHECK(in_slots(p, laws::reserve_is_idempotent_and_aligned, slot_bytes) == all_say(p, ""));
      CHECK(in_slots(p, laws::credits_come_back, slot_bytes) == all_say(p, ""));
    }
}

TEST_CASE("the laws of SharedMemoryTransport") {
  for (const int p : sizes)
    for (const std::size_t slot_bytes : {std::size_t{64 * 1024}, std::size_t{128}, std::size_t{33}}) {
      CHECK(in_slots(p, laws::exchanges_need_no_release, slot_bytes) == all_say(p, ""));
      CHECK(in_slots(p, laws::boards_are_read_by_all, slot_bytes) == all_say(p, ""));
      CHECK(in_slots(p, laws::replies_come_back, slot_bytes) == all_say(p, ""));
      CHECK(in_slots(p, laws::spare_buffers_pass_to_who_reads_them, slot_bytes) == all_say(p, ""));
      CHECK(in_slots(p, laws::references_are_read_and_replied, slot_bytes) == all_say(p, ""));
      CHECK(in_slots(p, laws::cancelled_pieces_are_not_read, slot_bytes) == all_say(p, ""));
    }
}

TEST_CASE("the laws of MessageTransport") {
  for (const int p : sizes) CHECK(in_messages(p, laws::messages_arrive_in_order) == all_say(p, ""));
  for (const int p : {2, 3}) {
    CHECK(in_messages(p, laws::another_tag_is_a_mismatch)[0] == "");
    const auto said = in_messages(p, laws::a_mismatch_is_told_alike);
    CHECK(said[0].find(" does something else") != std::string::npos);
    CHECK(said == all_say(p, said[0]));
  }
}

TEST_CASE("the laws of SharesMemory") {
  for (const int p : sizes) {
    CHECK(on_threads(p, laws::symmetric_memory_is_zeroed_aligned_and_common) == all_say(p, ""));
    CHECK(on_threads(p, laws::symmetric_memory_outlives_its_communicator) == all_say(p, ""));
    CHECK(on_threads(p, laws::symmetric_memory_comes_and_goes) == all_say(p, ""));
  }
}

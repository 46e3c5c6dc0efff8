// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws for ranks as processes.
#include "laws/memory_laws.hpp"
#include "laws/shared_memory_laws.hpp"
#include "laws/slot_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

static_assert(kolo::SharedMemoryTransport<kolo::shm::transport> && kolo::SharesMemory<kolo::shm::transport>);

template <class Law>
std::vector<std::string> in_processes(int p, Law law, std::size_t slot_bytes = 64 * 1024) {
  const auto end = on_processes(p, [&](auto& comm) { return law(comm.transport()); },
                                {.timeout = std::chrono::seconds{20}, .slot_bytes = slot_bytes});
  CHECK(end.clean);
  return end.said;
}

}  // namespace

TEST_CASE("processes: the laws of Transport") {
  for (const int p : {1, 2, 3, 4, 8}) {
    CHECK(in_processes(p, laws::is_constant) == all_say(p, ""));
    CHECK(in_processes(p, laws::failure_wakes_everybody) == all_say(p, ""));
    CHECK(in_processes(p, laws::split_orders_by_key_and_rank) == all_say(p, ""));
    CHECK(in_processes(p, laws::passes_on_what_failed_elsewhere) == all_say(p, ""));
    const auto winner = in_processes(p, laws::keeps_the_first_failure);
    CHECK(winner[0].starts_with("first "));
    CHECK(winner == all_say(p, winner[0]));
  }
  CHECK(in_processes(3, laws::deadline_passes) == all_say(3, ""));
}

TEST_CASE("processes: the laws of SlotTransport") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const std::size_t slot_bytes : {std::size_t{64 * 1024}, std::size_t{33}}) {
      CHECK(in_processes(p, laws::pieces_arrive_in_order, slot_bytes) == all_say(p, ""));
      CHECK(in_processes(p, laws::reserve_is_idempotent_and_aligned, slot_bytes) == all_say(p, ""));
      CHECK(in_processes(p, laws::credits_come_back, slot_bytes) == all_say(p, ""));
    }
}

TEST_CASE("processes: the laws of SharedMemoryTransport") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const std::size_t slot_bytes : {std::size_t{64 * 1024}, std::size_t{33}}) {
      CHECK(in_processes(p, laws::exchanges_need_no_release, slot_bytes) == all_say(p, ""));
      CHECK(in_processes(p, laws::boards_are_read_by_all, slot_bytes) == all_say(p, ""));
      CHECK(in_processes(p, laws::replies_come_back, slot_bytes) == all_say(p, ""));
      CHECK(in_processes(p, laws::spare_buffers_pass_to_who_reads_them, slot_bytes) == all_say(p, ""));
      CHECK(in_processes(p, laws::references_are_read_and_replied, slot_bytes) == all_say(p, ""));
      CHECK(in_processes(p, laws::cancelled_pieces_are_not_read, slot_bytes) == all_say(p, ""));
    }
}

TEST_CASE("processes: the laws of SharesMemory") {
  for (const int p : {1, 2, 3, 4, 8}) {
    CHECK(on_processes(p, laws::symmetric_memory_is_zeroed_aligned_and_common).said == all_say(p, ""));
    CHECK(on_processes(p, laws::symmetric_memory_outlives_its_communicator).said == all_say(p, ""));
    CHECK(on_processes(p, laws::symmetric_memory_comes_and_goes).said == all_say(p, ""));
  }
}

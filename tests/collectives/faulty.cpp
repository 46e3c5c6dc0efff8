// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fault-injecting transport: without a fault it keeps all laws although pieces are seen late; with a fault, the error reports what was planned.
#include <kolo/observe/faulty.hpp>
#include <kolo/observe/traced.hpp>
#include <kolo/point_to_point.hpp>

#include "collectives/ranks.hpp"
#include "laws/message_laws.hpp"
#include "laws/shared_memory_laws.hpp"
#include "laws/slot_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

using over_messages_wire = kolo::faulty<message_transport>;
using over_slots_wire = kolo::faulty<kolo::threads::transport>;
static_assert(kolo::MessageTransport<over_messages_wire> && !kolo::SlotTransport<over_messages_wire>);
static_assert(kolo::SharedMemoryTransport<over_slots_wire> && kolo::SharesMemory<over_slots_wire>);

/// Runs f(comm) -> string on p threads whose transport has that plan.
template <class T, class F>
std::vector<std::string> with_plan(int p, const kolo::fault_plan& plan, F f, std::size_t slot_bytes = small_slot) {
  return on_threads(p,
                    [&](auto& whole) {
                      kolo::communicator<T> comm{std::move(whole.transport())};
                      kolo::inject_fault(comm, plan);
                      return f(comm);
                    },
                    {.timeout = 20s, .slot_bytes = slot_bytes});
}

/// Several algorithms, with long and short vectors, twice: each way of running a call sees late pieces.
constexpr auto sums_are_right = [](auto& comm) -> std::string {
  const int p = comm.size();
  const auto one = [&](std::size_t n, auto algorithm) {
    std::vector<int> x(n, comm.rank() + 1);
    kolo::allreduce(comm, x, kolo::sum, algorithm);
    return std::count(x.begin(), x.end(), p * (p + 1) / 2) == static_cast<std::ptrdiff_t>(n);
  };
  for (int k = 0; k < 2; ++k)
    for (const std::size_t n : {std::size_t{1}, std::size_t{5}, std::size_t{1009}})
      if (!one(n, kolo::ring{}) || !one(n, kolo::one_shot{}) || !one(n, kolo::two_shot{}) ||
          !one(n, kolo::recursive_doubling{}))
        return "a sum is wrong";
  return "";
};

template <class T>
void expect_the_plan() {
  auto timeout = 200ms;  // within it, all other ranks must be seen waiting
  const auto ends = [&](auto& comm) {
    std::vector<int> x(100, 1);
    const auto one = [&] {  // a rank may still be in the barrier when another has its fault after it
      kolo::barrier(comm);
      kolo::allreduce(comm, x, kolo::sum, kolo::ring{}, {.timeout = comm.rank() == 1 ? timeout : 20s});
    };
    return end_and_next(comm, one);
  };
  using kolo::fault_kind;
  CHECK(with_plan<T>(3, {.what = fault_kind::leave, .rank = 1, .operation = 2, .round = 1}, ends) ==
        all_but(1, 3, "peer failed 1, then peer failed 1", "system 1, then peer failed 1"));
  const auto nobody = all_say(3, "timeout -1, then timeout -1");  // all ranks wait, so no rank is blamed
  std::vector<std::string> said;
  for (; said != nobody && timeout < 10s; timeout *= 4)
    said = with_plan<T>(3, {.what = fault_kind::cut, .rank = 1, .operation = 2, .peer = 0}, ends);
  CHECK(said == nobody);
  CHECK(with_plan<T>(3, {.what = fault_kind::pause, .rank = 1, .operation = 2, .round = 2, .duration = 20ms}, ends) ==
        all_say(3, "fine, then fine"));
  CHECK(with_plan<T>(3, {.what = fault_kind::leave, .rank = 1, .operation = 2, .round = 4}, ends) ==
        all_say(3, "fine, then fine"));
  CHECK(with_plan<T>(3, {.what = fault_kind::leave, .rank = 1, .operation = 9}, ends) == all_say(3, "fine, then fine"));
  const auto after_pairs = [&](auto& comm) {
    std::vector<int> x(100);
    const auto three = [&] {
      for (int k = 0; k < 3; ++k) comm.rank() == 1 ? kolo::send(comm, x, 0) : kolo::receive(comm, x, 1);
    };
    const std::string end = comm.rank() == 2 ? "fine" : end_of(three);
    return end + ", " + ends(comm);
  };
  CHECK(with_plan<T>(3, {.what = fault_kind::leave, .rank = 1, .operation = 2}, after_pairs) ==
        all_but(1, 3, "fine, peer failed 1, then peer failed 1", "fine, system 1, then peer failed 1"));
}

}  // namespace

TEST_CASE("pieces that are seen late and out of order do not change results") {
  for (const int p : {2, 3, 5})
    for (const std::uint64_t seed : {0u, 1u, 2u}) {
      CHECK(with_plan<over_slots_wire>(p, {.seed = seed}, sums_are_right) == all_say(p, ""));
      CHECK(with_plan<over_messages_wire>(p, {.seed = seed}, sums_are_right) == all_say(p, ""));
    }
}

TEST_CASE("the transport laws hold although pieces are seen late") {
  const auto under = [](auto law) { return [law](auto& comm) { return std::string{law(comm.transport())}; }; };
  for (const int p : {2, 3}) {
    CHECK(with_plan<over_slots_wire>(p, {.seed = 3}, under(laws::pieces_arrive_in_order)) == all_say(p, ""));
    CHECK(with_plan<over_slots_wire>(p, {.seed = 3}, under(laws::credits_come_back)) == all_say(p, ""));
    CHECK(with_plan<over_slots_wire>(p, {.seed = 3}, under(laws::exchanges_need_no_release)) == all_say(p, ""));
    CHECK(with_plan<over_slots_wire>(p, {.seed = 3}, under(laws::boards_are_read_by_all)) == all_say(p, ""));
    CHECK(with_plan<over_slots_wire>(p, {.seed = 3}, under(laws::replies_come_back)) == all_say(p, ""));
    CHECK(with_plan<over_slots_wire>(p, {.seed = 3}, under(laws::spare_buffers_pass_to_who_reads_them)) ==
          all_say(p, ""));
    CHECK(with_plan<over_slots_wire>(p, {.seed = 3}, under(laws::deadline_passes)) == all_say(p, ""));
    CHECK(with_plan<over_messages_wire>(p, {.seed = 3}, under(laws::messages_arrive_in_order)) == all_say(p, ""));
    CHECK(with_plan<over_messages_wire>(p, {.seed = 3}, under(laws::split_orders_by_key_and_rank)) == all_say(p, ""));
  }
}

TEST_CASE("a planned fault happens where it is planned, and nowhere else") {
  expect_the_plan<over_slots_wire>();
  expect_the_plan<over_messages_wire>();
}

TEST_CASE("traced and faulty decorate each other") {
  const auto named = [](auto& comm) -> std::string {
    kolo::watch(comm);
    if (const auto wrong = sums_are_right(comm); !wrong.empty()) return wrong;
    const auto& log = comm.transport().log();
    for (std::size_t i = 0; i < log.size(); ++i)
      if (log[i].kind == kolo::trace_event::what::waited && log[i].operation != std::string{"allreduce"})
        return "an event has no name";
    return log.size() > 0 ? "" : "there are no events";
  };
  const auto late = kolo::fault_plan{.seed = 5};
  CHECK(with_plan<kolo::traced<over_slots_wire>>(3, late, named) == all_say(3, ""));
  CHECK(with_plan<kolo::traced<over_messages_wire>>(3, late, named) == all_say(3, ""));
  CHECK(with_plan<kolo::faulty<kolo::traced<kolo::threads::transport>>>(3, late, named) == all_say(3, ""));
  CHECK(with_plan<kolo::faulty<kolo::traced<message_transport>>>(3, late, named) == all_say(3, ""));
  expect_the_plan<kolo::traced<over_slots_wire>>();
  expect_the_plan<kolo::faulty<kolo::traced<message_transport>>>();
}

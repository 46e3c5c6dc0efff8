// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages and bytes of a run, counted by the transport, are those that cost_of predicts: for each algorithm, rank and peer.
#include <kolo/observe/counted.hpp>
#include <kolo/schedule/catalogue.hpp>
#include <kolo/schedule/cost.hpp>

#include "collectives/any_schedule.hpp"
#include "collectives/ranks.hpp"
#include "support/catch.hpp"

#include <initializer_list>

using namespace testing;

namespace {

using kolo::kind, kolo::traffic;
using counted_messages = kolo::counted<message_transport>;
using counted_slots = kolo::counted<kolo::threads::transport>;
static_assert(kolo::MessageTransport<counted_messages> && !kolo::SlotTransport<counted_messages>);
static_assert(kolo::SlotTransport<counted_slots> && !kolo::SharedMemoryTransport<counted_slots>);

/// Elements are bytes, so blocks are cut where cost_of cuts them. `each`: the bytes of the vector, or of each rank's part.
template <class C, class S>
void call(C& comm, const S& schedule, std::size_t each) {
  constexpr auto K = S::collective;
  const auto whole = each * static_cast<std::size_t>(comm.size());
  const std::size_t mine = K == kind::reduce_scatter ? kolo::block(each, comm.size(), comm.rank()).count : each;
  const std::vector<unsigned char> in(K == kind::scatter || K == kind::alltoall ? whole : each, 1);
  std::vector<unsigned char> out(K == kind::allgather || K == kind::gather || K == kind::alltoall ? whole : mine),
      x = in;
  const auto op = kolo::bit_xor;
  if constexpr (K == kind::allreduce) kolo::allreduce(comm, in, out, op, schedule);
  else if constexpr (K == kind::reduce_scatter) kolo::reduce_scatter(comm, in, out, op, schedule);
  else if constexpr (K == kind::allgather) kolo::allgather(comm, in, out, schedule);
  else if constexpr (K == kind::broadcast) kolo::broadcast(comm, x, 0, schedule);
  else if constexpr (K == kind::reduce) kolo::reduce(comm, in, out, op, 0, schedule);
  else if constexpr (K == kind::gather) kolo::gather(comm, in, out, 0, schedule);
  else if constexpr (K == kind::scatter) kolo::scatter(comm, in, out, 0, schedule);
  else if constexpr (K == kind::alltoall) kolo::alltoall(comm, in, out, schedule);
  else if constexpr (K == kind::scan) kolo::scan(comm, in, out, op, schedule);
  else if constexpr (K == kind::exclusive_scan) kolo::exclusive_scan(comm, in, out, op, schedule);
  else kolo::barrier(comm, schedule);
}

/// What rank r should send to and receive from `peer`, message by message; empty messages are not sent.
template <class S>
traffic expected(const S& schedule, int r, int peer, int p, std::size_t bytes) {
  traffic t;
  const auto count = [&](const kolo::block_range& range, int i) {
    return kolo::bytes_in(range, i, schedule.blocks(p), kolo::detail::schedule::block_sets(S::collective), bytes);
  };
  for (int k = 0; k < schedule.rounds(p) && peer != r; ++k)
    for (const kolo::transfer& one : kolo::step{schedule.at(r, p, k)}) {
      if (const int i = one.to.index_of(peer, p); i != kolo::nobody)
        if (const auto n = count(one.send, i)) t += {.messages_sent = 1, .bytes_sent = n};
      if (const int i = one.from.index_of(peer, p); i != kolo::nobody)
        if (const auto n = count(one.receive, i)) t += {.messages_received = 1, .bytes_received = n};
    }
  return t;
}

std::string said(const traffic& t) {
  return std::to_string(t.messages_sent) + " messages, " + std::to_string(t.bytes_sent) + " bytes sent, " +
         std::to_string(t.messages_received) + " messages, " + std::to_string(t.bytes_received) + " bytes received";
}

/// Makes one call; compares its traffic with the schedule and with cost_of. `is_one_piece`: each block is sent as one piece.
template <class C, class S>
void compare(C& comm, complaints& wrong, const char* name, const S& schedule, std::size_t each, bool is_one_piece) {
  const int p = comm.size(), r = comm.rank();
  const bool cut_as_one = !kolo::detail::schedule::has_parts(S::collective) ||
                          schedule.blocks(p) == p;  // otherwise each part is cut separately
  if (!cut_as_one && each % static_cast<std::size_t>(schedule.blocks(p)) != 0) return;
  constexpr bool counts_parts =
      kolo::detail::schedule::has_parts(S::collective) && S::collective != kind::reduce_scatter;
  const auto bytes = S::collective == kind::barrier ? 1 : counts_parts ? each * static_cast<std::size_t>(p) : each;
  comm.transport().forget();
  call(comm, schedule, each);
  const auto where = std::string{name} + "::" + kolo::name(S::collective) + " of " + std::to_string(each) +
                     " bytes on rank " + std::to_string(r);
  const auto same = [&](traffic counted, traffic wanted, const std::string& with) {
    if (!is_one_piece)
      counted.messages_sent = wanted.messages_sent, counted.messages_received = wanted.messages_received;
    wrong.expect(counted == wanted, where + with + ": counted " + said(counted) + ", expected " + said(wanted));
  };
  for (int peer = 0; peer < p; ++peer)
    same(comm.transport().with(peer), expected(schedule, r, peer, p, bytes), " with " + std::to_string(peer));
  auto counted = comm.transport().total();
  const kolo::cost cost = kolo::cost_of(schedule, r, p, bytes);
  const bool no_message_is_empty = bytes >= static_cast<std::size_t>(schedule.blocks(p));
  if (!no_message_is_empty) counted.messages_sent = cost.messages;
  same(counted, {cost.messages, cost.sent, counted.messages_received, cost.received}, "");
}

template <class T>
void every_algorithm(int p, std::size_t slot_bytes, std::initializer_list<std::size_t> sizes, bool is_one_piece) {
  CHECK(on_ranks<over_transport<T>>(
            p,
            [&](auto& comm, complaints& wrong) {
              kolo::for_each_family([&](const char* name, const auto& family) {
                kolo::for_each_schedule_of(family, [&](const auto& schedule) {
                  if (p == 1 || !kolo::supports(schedule, p)) return;
                  const any_schedule any{schedule, p};
                  for (const std::size_t each : sizes) compare(comm, wrong, name, any, each, is_one_piece);
                });
              });
            },
            slot_bytes) == "");
}

}  // namespace

TEST_CASE("messages: the traffic is what cost_of predicts") {
  for (const int p : rank_counts) every_algorithm<counted_messages>(p, usual_slot, {0, 1, 1009, 7200}, true);
}

TEST_CASE("messages: a message that is cut into pieces has the same bytes") {
  for (const int p : {2, 3, 5, 8}) every_algorithm<counted_messages>(p, small_slot, {7200}, false);
}

TEST_CASE("slots: a message that fits a slot is one piece") {
  for (const int p : rank_counts) every_algorithm<counted_slots>(p, usual_slot, {0, 1, 1009, 7200}, true);
}

TEST_CASE("slots: a message that is cut into pieces has the same bytes") {
  for (const int p : {2, 3, 5, 8}) every_algorithm<counted_slots>(p, small_slot, {7200}, false);
}

TEST_CASE("forget resets the counts; a child communicator counts its own peers only") {
  CHECK(on_ranks<over_transport<counted_messages>>(4, [](auto& comm, complaints& wrong) {
          call(comm, kolo::one_shot::allreduce{}, 10);
          wrong.expect(comm.transport().total() == traffic{3, 30, 3, 30},
                       "one_shot sends 10 bytes to each of three peers");
          auto half = comm.split(comm.rank() / 2, 0);
          wrong.expect(half.transport().total() == traffic{}, "a new communicator has no traffic");
          call(half, kolo::one_shot::allreduce{}, 10);
          wrong.expect(half.transport().with(1 - half.rank()) == traffic{1, 10, 1, 10}, "a child counts its own peers");
          comm.transport().forget();
          wrong.expect(comm.transport().total() == traffic{}, "forget resets the counts");
        }) == "");
}

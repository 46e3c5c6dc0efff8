// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognises schedules that a shared-memory transport can run as one stream, not round by round.
#pragma once

#include <kolo/execute/collective_args.hpp>
#include <kolo/schedule/cost_model.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Two ranks never negotiate how a piece travels: each decides alone, and both must decide alike. So a decision may
/// depend only on what both know: what all ranks know (collective, algorithm, operator, elements, slots), and how much
/// each of the two sends the other. In a ragged alltoall a rank does not know its peer's other parts, so neither the
/// longest part nor the number of pieces may count; nor may the places of its views, or whether it waits for the call.
/// If only the sender knows something, the piece carries it. Each decision, and what it depends on:
///
/// * stream, or rounds: the schedule (`classify`), and whether the operator has a wire type of its own
/// * exchange, or slot: the pattern and the pair's two lengths (`is_exchange`)
/// * board: the collective, its algorithm and the length of a block, which all ranks know (`uses_board`); or slots
///   after all: the sender, which posts an empty piece there (`piece_protocols::post`); if all ranks post, they decide
///   together, after each has read all posts (`stream_run::end_posts`)
/// * spare buffer, reference, or slot: the sender; the piece specifies it, and the place of the reply
/// * waiting for a piece, since it brings a spare buffer: the pattern and the pair's two lengths: only the rank that is
///   ahead waits, so the other one does not
/// * where a block is cut: the transport's piece length, and the length of what goes one way, if all parts are equal;
///   shorter pieces of a rank with short parts cut no block (`layout`)
/// * pieces of messages in flight: this rank's number of pieces; the steps of a rank with one in flight are a subset of
///   those of a rank with two, in the same order
/// * a plan in place of a run: this rank: both do the same on the wire (`small_call_run`, `small_call_messages`)
/// * slots, or messages: the transport, as all its ranks made it
constexpr bool is_exchange(std::size_t sent_bytes, std::size_t received_bytes, std::size_t most) {
  return sent_bytes > 0 && received_bytes > 0 && std::max(sent_bytes, received_bytes) <= most;
}

/// The largest vector, or part, in bytes that counts as small; beyond that a plan saves nothing measurable.
template <Transport T>
std::size_t most_small_bytes(const T& transport) {
  constexpr std::size_t most = 32 * 1024;
  if constexpr (SharedMemoryTransport<T>) return std::min(most, transport.slot_bytes());
  else return std::min(most, transport.piece_bytes());
}

/// Whether data for all other ranks goes on the sender's board whatever its length.
constexpr bool uses_board(kind k, pattern p, int size) {
  return k == kind::broadcast && p == pattern::one_way && size > core::few_ranks;
}
/// The same for a given length: if every rank sends to all others, its part of an allgather of any length, and other
/// data up to what the board holds at once.
constexpr bool uses_board(const collective_args& args, pattern p, int size, std::size_t board_bytes) {
  const auto k = args.collective;
  const auto bytes = args.count * args.compute.element_bytes;
  if (args.receive_counts || (bytes == 0 && !args.send_counts)) return false;
  if (p == pattern::one_way) return uses_board(k, p, size) || (k == kind::broadcast && bytes <= board_bytes);
  return p == pattern::exchange && size > core::few_ranks &&
         (k == kind::allgather || ((k == kind::allreduce || k == kind::barrier) && bytes <= board_bytes));
}

/// A round of one rank, if it is simple: one transfer of single blocks, and perhaps a copy within the rank.
struct simple_round {
  transfer main{}, local{};
  bool is_simple = true, has_local = false;

  simple_round(const step& s, int rank, kind k) {
    int others = 0;
    for (const transfer& t : s) {
      const bool is_local = t.to.count == 1 && t.to.first == rank;
      const bool is_only = is_local ? !has_local && t.then == arrival::replace : others++ == 0;
      is_simple =
          is_simple && is_only && (t.to.count == 0 || t.send.count == 1) && (t.from.count == 0 || t.receive.count == 1);
      (is_local ? local : main) = t;
      has_local = has_local || is_local;
    }
    // A block that is sent, and then replaced by a received one, would have to wait for the slowest peer.
    is_simple = is_simple && (k == kind::barrier || main.then != arrival::replace || main.to.count == 0 ||
                              main.from.count == 0 || main.send != main.receive);
  }
  bool is_exchange() const { return main.to.count > 0 && same(main.to, main.from); }
  static bool same(const peer_range& a, const peer_range& b) { return a.count == b.count && (a.count == 0 || a == b); }
};

inline bool same_blocks(const block_range& a, const block_range& b, int peers, const schedule_ref& s) {
  for (int peer = 0; peer < peers; ++peer)
    if (schedule::block_at(a, 0, peer, s.blocks, 1) != schedule::block_at(b, 0, peer, s.blocks, 1)) return false;
  return true;
}

[[gnu::cold, gnu::noinline]] inline bool is_round_trip(const schedule_ref& s, kind k, int rank, int size) {
  const simple_round first{s.at(s.self, rank, size, 0), rank, k}, second{s.at(s.self, rank, size, 1), rank, k};
  const transfer &there = first.main, &back = second.main;
  const int peers = there.to.count;
  return first.is_simple && second.is_simple && !first.has_local && !second.has_local && first.is_exchange() &&
         second.is_exchange() && simple_round::same(there.to, back.to) && there.then != arrival::replace &&
         back.then == arrival::replace && same_blocks(back.send, there.receive, peers, s) &&
         same_blocks(back.receive, there.send, peers, s);
}

/// Whether every received block is promised to this rank. A stream has no scratch.
[[gnu::cold, gnu::noinline]] inline bool comes_home(const transfer& t, const schedule_ref& s, kind k, int rank,
                                                    int size) {
  for (int i = 0; i < t.from.count; ++i) {
    const int b = schedule::block_at(t.receive, 0, i, s.blocks, schedule::block_sets(k));
    if (!schedule::required_after(k, rank, b, s.blocks, size, s.root)) return false;
  }
  return true;
}

/// Examines every rank, so call it once per schedule. Many ranks gain little from streams.
[[gnu::cold, gnu::noinline]] inline pattern classify(const schedule_ref& s, kind k, int size) {
  constexpr int many = 64;
  if (s.rounds > 2 || s.rounds == 0 || s.scratch > 0 || size > many || k == kind::scan || k == kind::exclusive_scan)
    return pattern::rounds;
  auto found = s.rounds == 1 ? pattern::exchange : pattern::there_and_back;
  for (int rank = 0; rank < size; ++rank) {
    if (s.rounds == 2) {
      if (k != kind::allreduce || !is_round_trip(s, k, rank, size)) return pattern::rounds;
    } else {
      const simple_round only{s.at(s.self, rank, size, 0), rank, k};
      if (!only.is_simple || !comes_home(only.main, s, k, rank, size) || !comes_home(only.local, s, k, rank, size))
        return pattern::rounds;
      if (!only.is_exchange()) found = pattern::one_way;
    }
  }
  return found;
}

}  // namespace kolo::inline KOLO_ABI::detail::execute

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The result of a proof: no fault, or the first broken law, with its rank, round and block.
#pragma once

#include <kolo/core/text.hpp>
#include <kolo/schedule/schedule.hpp>

#include <string>

namespace kolo::inline KOLO_ABI {

/// The ways to break the laws above `Schedule`.
enum class fault {
  none,
  unsupported,  ///< the schedule does not support this number of ranks
  /// the number of blocks, rounds or scratch blocks, or the root, is invalid for the kind, or for `relative`
  bad_shape,
  bad_peer,   ///< a range of peers that does not begin at a rank, is too long, or contains the rank itself among others
  bad_block,  ///< a block that does not exist
  unmatched_send,         ///< matched: a message is sent, and not received
  unmatched_receive,      ///< matched: a message is received, and not sent
  two_messages,           ///< matched: two messages from one rank to another in one round
  different_lengths,      ///< matched: more blocks are sent than received, or fewer
  different_blocks,       ///< matched: a block arrives as another one
  sends_nothing,          ///< before: a block is sent that holds nothing yet
  combines_with_nothing,  ///< before: an arrival is combined with a block that holds nothing yet
  combines_apart,         ///< separate: one transfer combines what several peers send into different blocks
  written_twice,          ///< separate: a block is written twice in one round
  read_while_written,     ///< separate: a block is sent and received in one round, but not as part of the same range
  no_operator,            ///< complete: blocks are combined, and the collective has no operator
  counted_twice,          ///< complete: a contribution is counted twice
  missing,                ///< complete: at the end a required block lacks a contribution
  not_promised,           ///< complete: at the end a required block holds something else
  drift,                  ///< complete: the expression trees differ between ranks
  order,                  ///< ordered: combined in another order than that of the ranks
  combined_late,          ///< finished: combined in round reduce_rounds or later
  not_relative            ///< relative: the step of a rank is not that of rank 0, moved
};

constexpr const char* sentence(fault f) {
  switch (f) {
    case fault::none: return "proven";
    case fault::unsupported: return "the schedule does not support this number of ranks";
    case fault::bad_shape: return "blocks, rounds or root do not fit the collective and the number of ranks";
    case fault::bad_peer: return "a range of peers does not lie among the ranks, or holds the rank itself among others";
    case fault::bad_block: return "a block that does not exist";
    case fault::unmatched_send: return "a message is sent that nobody receives";
    case fault::unmatched_receive: return "a message is received that nobody sends";
    case fault::two_messages: return "two messages from one rank to another in one round";
    case fault::different_lengths: return "the numbers of blocks that are sent and received differ";
    case fault::different_blocks: return "the blocks that are sent and received differ";
    case fault::sends_nothing: return "sends a block that holds nothing yet";
    case fault::combines_with_nothing: return "combines with a block that holds nothing yet";
    case fault::combines_apart: return "what several peers send is combined into different blocks by one transfer";
    case fault::written_twice: return "written twice in one round";
    case fault::read_while_written: return "read while it is written";
    case fault::no_operator: return "combines, and the collective has no operator";
    case fault::counted_twice: return "contribution counted twice";
    case fault::missing: return "contribution missing at the end";
    case fault::not_promised: return "holds something other than what the collective requires";
    case fault::drift: return "combined in another way than on another rank, so replicas would diverge";
    case fault::order: return "not combined in the order of the ranks";
    case fault::combined_late: return "combined after the last of reduce_rounds";
    case fault::not_relative:
      return "does something else than rank 0, relative to its own number, although the schedule is `relative`";
  }
  return "";
}

/// How a verdict was found.
enum class proof_way {
  every_rank,  ///< all ranks were executed
  one_rank,    ///< rank 0 was executed, and the steps of all others are its own, moved around the circle
  /// rank 0 was executed, and the steps of four ranks were compared in each round; that the other ranks follow too is
  /// only declared by the schedule, as `relative`
  one_rank_and_samples
};

constexpr const char* sentence(proof_way w) {
  switch (w) {
    case proof_way::every_rank: return "";
    case proof_way::one_rank: return ", by rank 0, which all others were seen to follow around the circle";
    case proof_way::one_rank_and_samples:
      return ", by rank 0, which four others a round were seen to follow around the circle";
  }
  return "";
}

/// True if there is no fault; otherwise the first one. Members that do not apply (the round, at the end) are -1.
struct verdict {
  fault what = fault::none;
  kind collective{};
  int size = 0;
  int rank = -1;
  int round = -1;
  int block = -1;
  proof_way way = proof_way::every_rank;
  const char* misfit = nullptr;  ///< of a bad_shape: the broken rule, as "blocks is 1 at least"

  constexpr operator bool() const { return what == fault::none; }

  using printed_by_message = void;  ///< by `<<`: core/text.hpp
  /// "allreduce of 5 ranks: rank 2, round 3, block 1: contribution counted twice"
  std::string message() const {
    std::string text = std::string{name(collective)} + " of " + detail::core::ranks_text(size) + ": ";
    if (rank >= 0) text += "rank " + std::to_string(rank) + ", ";
    if (round >= 0) text += "round " + std::to_string(round) + ", ";
    if (block >= 0) text += "block " + std::to_string(block) + ", ";
    if (rank >= 0 || round >= 0 || block >= 0) text.replace(text.size() - 2, 2, ": ");
    text += sentence(what);
    if (misfit) text += std::string{": "} + misfit;
    return text + (what == fault::none ? sentence(way) : "");
  }
};

}  // namespace kolo::inline KOLO_ABI

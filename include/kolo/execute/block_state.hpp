// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of each block of a running collective, and how its elements are packed, replaced and combined.
#pragma once

#include <kolo/execute/executor.hpp>
#include <kolo/execute/layout.hpp>

#include <algorithm>
#include <cstring>

namespace kolo::inline KOLO_ABI::detail::execute {

/// All there is to do for one rank: its input is the result. Needs no scratch.
void copy_own(const collective_args& args, const auto& executor) {
  if (args.collective == kind::exclusive_scan || args.collective == kind::barrier) return;
  copy_elements({&args.in, 0}, {&args.out, 0}, args.in.count, executor);
  if (args.compute.finishes_alone)
    for_each_run({&args.out, 0}, args.out.count, [&](std::byte* data, std::size_t, std::size_t n) {
      const source only{data, false};
      executor.combine(args.compute, data, &only, 1, n, 1);
    });
  if (args.epilogue) args.epilogue->apply(args.epilogue->self, 0, args.out.count);
}

/// The progress of a transfer's stream of elements: block after block of a range.
struct cursor {
  int index = 0;           ///< of the block in the range
  std::size_t offset = 0;  ///< elements of that block that are done
  std::size_t left = 0;    ///< elements of the stream that are not
};

/// The state of one operation on one rank. A call is cut into pieces, the same part of every block, and the whole
/// schedule runs for one piece after the other, so that data in flight stays in the cache and scratch stays small.
///
/// Example: reduce_scatter by `ring` of 9 elements on 3 ranks, so 3 blocks of 3 elements, over a transport that carries
/// 2 elements at once. There are 2 pieces: elements 0 and 1 of every block, then element 2 of every block; the
/// schedule's 2 rounds run for the first, then for the second. Rank 0, one piece:
///
///   round 0  sends block 2, which it reads in the input; combines rank 2's data with block 1. Block 1 is now
///            `written`: from here on it is read in its destination, and not in the input.
///   round 1  sends block 1 from there; combines the received data with block 0. Nothing is combined with that any
///            more, so the operator's `finish` (an average's division) is applied in the same pass.
template <class Executor = host_executor>
class block_state : public layout {
 public:
  enum flag : std::uint8_t {
    written = 1,     ///< its value is in its destination; otherwise it is still in the input
    unfinished = 2,  ///< combined, but the operator's `finish` has not been applied yet
    /// Is being sent in this round, rounded to the wire's type. So is the sender's own value, which lies in the block's
    /// destination: all ranks continue with the same one.
    sent_now = 4
  };

  /// What `begin` needs: bytes of state, bytes of scratch blocks; and the number of pieces.
  struct need {
    std::size_t state_memory, blocks, pieces;
  };
  static need bytes_needed(const collective_args& args, int rank, int size, std::size_t piece_bytes) {
    block_state w;
    w.describe(args, rank, size, piece_bytes);
    return {w.partition(nullptr, nullptr), w.scratch_bytes(), w.pieces()};
  }

  void begin(const collective_args& args, int rank, int size, std::size_t piece_bytes, std::byte* state_memory,
             std::byte* blocks, const Executor& executor) {
    executor_ = executor;
    describe(args, rank, size, piece_bytes);
    partition(state_memory, blocks);
    begin_piece(0);
  }

  bool next_piece(std::size_t further = 1) {
    if (piece_ + further >= pieces()) return false;
    begin_piece(piece_ + further);
    return true;
  }

  step at(int round) const { return args_->schedule.at(args_->schedule.self, virtual_rank(), size_, round); }
  cursor start(const block_range& range, int peer) const {
    cursor c;
    for (int i = 0; i < range.count; ++i) c.left += length(block_of(range, i, peer));
    return c;
  }

  /// Calls f(block, offset, elements) for the next `count` elements of a stream.
  void advance(cursor& c, const block_range& range, int peer, std::size_t count, auto f) {
    c.left -= count;
    while (count > 0) {
      const int b = block_of(range, c.index, peer);
      const auto n = std::min(length(b) - c.offset, count);
      if (n > 0) f(b, c.offset, n);
      count -= n;
      c.offset += n;
      if (c.offset == length(b)) c = {c.index + 1, 0, c.left};
    }
  }

  /// Packs the next elements of a stream for the wire.
  void pack(cursor& c, const block_range& range, int peer, std::size_t count, std::byte* to) {
    advance(c, range, peer, count, [&](int b, std::size_t offset, std::size_t n) {
      copy_to_wire(b, offset, n, to);
      to += n * args_->compute.wire_bytes;
    });
  }

  /// Received elements replace those of a stream.
  void replace(cursor& c, const block_range& range, int peer, std::size_t count, const std::byte* from) {
    advance(c, range, peer, count, [&](int b, std::size_t offset, std::size_t n) {
      for_each_run(destination(b, offset), n, [&](std::byte* to, std::size_t, std::size_t run) {
        if (args_->compute.from_wire) executor_.from_wire(args_->compute, to, from, run);
        else executor_.copy(to, from, run * args_->compute.wire_bytes);
        from += run * args_->compute.wire_bytes;
      });
    });
  }

  /// Received elements are combined with those of a stream. `sources`: in the order in which they are combined; the one
  /// without data is this rank's own. The call advances them.
  void combine(cursor& c, const block_range& range, std::size_t count, source* sources, int n, bool finishing) {
    int own = 0;
    while (sources[own].data) ++own;
    advance(c, range, 0, count, [&](int b, std::size_t offset, std::size_t elements) {
      combine_block(b, offset, elements, sources, n, own, finishing);
    });
  }

  /// Begins a round: applies `finish` to complete blocks before they are sent, copies or combines what stays on this
  /// rank, and calls f(transfer) to start the other transfers.
  void begin_round(const step& now, int round, auto start) {
    for (const transfer& t : now) {
      if (args_->compute.finishes && is_complete(round)) for_each_block(t.send, t.to.count, [&](int b) { finish(b); });
      if (is_local(t)) {
        combine_locally(t, completes(round));
        continue;
      }
      if (args_->compute.to_wire) for_each_block(t.send, t.to.count, [&](int b) { flags_[b] |= sent_now; });
      start(t);
    }
  }

  /// Ends a round: everything received has been put in its place.
  void end_round(const step& now, int round) {
    for (const transfer& t : now)  // first all that was sent
      if (args_->compute.to_wire && !is_local(t))
        for_each_block(t.send, t.to.count, [&](int b) { mark_written(b, flags_[b] & unfinished); });
    for (const transfer& t : now) {
      const bool is_finished = is_complete(round) || (t.then != arrival::replace && completes(round));
      for_each_block(t.receive, t.from.count, [&](int b) { mark_written(b, is_finished ? 0 : unfinished); });
    }
  }

  /// Whether this is the last round that combines anything, so that its results are complete.
  bool completes(int round) const { return round == args_->schedule.reduce_rounds - 1; }
  bool is_local(const transfer& t) const { return t.to.count == 1 && t.to.first == virtual_rank(); }

  /// Ends the schedule for this piece: moves every block promised to this rank to its destination, and finishes it.
  void end_piece() {
    for (int b = 0; b < args_->schedule.blocks * schedule::block_sets(args_->collective); ++b) {
      if (!is_wanted(b)) continue;
      copy_to_destination(b);
      if (args_->epilogue) conclude(destination(b, 0), length(b));
    }
  }

  /// Where the block is now.
  element_position current(int b, std::size_t offset) const {
    return (flags_[b] & written) != 0 ? destination(b, offset) : input_of(b, offset);
  }

 private:
  /// From this round on nothing is combined any more.
  bool is_complete(int round) const { return round >= args_->schedule.reduce_rounds; }

  /// A transfer to oneself.
  void combine_locally(const transfer& t, bool finishing) {
    for (int i = 0; i < t.receive.count; ++i) {
      const int from = block_of(t.send, i, 0), to = block_of(t.receive, i, 0);
      if (t.then == arrival::replace) {
        copy_elements(current(from, 0), destination(to, 0), length(from), executor_);
        continue;
      }
      for_each_run(current(from, 0), length(from), [&](std::byte* theirs, std::size_t done, std::size_t n) {
        source both[] = {{theirs, false}, {nullptr, false}};
        if (t.then == arrival::mine_first) std::swap(both[0], both[1]);
        combine_block(to, done, n, both, 2, t.then == arrival::mine_first ? 0 : 1, finishing);
      });
    }
  }

  /// `also`: unfinished, or 0.
  void mark_written(int b, int also) { flags_[b] = std::uint8_t(written | also); }

  std::size_t partition(std::byte* memory_from, std::byte* blocks) {
    std::size_t used = 0;
    const auto take = [&](std::size_t bytes) {
      auto* p = memory_from ? memory_from + used : nullptr;
      used += in_lines(bytes);
      return p;
    };
    place_parts([&](std::size_t bytes) { return reinterpret_cast<std::size_t*>(take(bytes)); });
    flags_ = reinterpret_cast<std::uint8_t*>(take(all_blocks()));
    place_scratch(blocks);
    return used;
  }

  void for_each_block(const block_range& range, int peers, auto f) {
    const int different_peers = range.per_peer == 0 && peers > 0 ? 1 : peers;
    for (int peer = 0; peer < different_peers; ++peer)
      for (int i = 0; i < range.count; ++i) f(block_of(range, i, peer));
  }

  void begin_piece(std::size_t index) {
    piece_ = index;
    std::memset(flags_, 0, all_blocks());
  }

  void copy_to_destination(int b) {
    finish(b);
    if ((flags_[b] & written) != 0) {
      if (args_->collective == kind::allreduce && args_->compute.to_wire) round(b);
      return;
    }
    if (length(b) == 0 || !schedule::held_before(args_->collective, virtual_rank(), b, args_->schedule.blocks, size_,
                                                 args_->schedule.root))
      return;
    copy_elements(input_of(b, 0), destination(b, 0), length(b), executor_);
  }

  void finish(int b) {
    if ((flags_[b] & unfinished) == 0) return;
    flags_[b] = written;
    if (!args_->compute.finishes) return;
    for_each_run(destination(b, 0), length(b), [&](std::byte* data, std::size_t, std::size_t n) {
      const source only{data, false};
      executor_.combine(args_->compute, data, &only, 1, n, size_);
    });
  }

  /// Some ranks combined the result, others received it: all must have the same.
  void round(int b) {
    for_each_run(destination(b, 0), length(b),
                 [&](std::byte* data, std::size_t, std::size_t n) { executor_.round(args_->compute, data, n); });
  }

  void copy_to_wire(int b, std::size_t offset, std::size_t count, std::byte* to) {
    const auto& k = args_->compute;
    for_each_run(current(b, offset), count, [&](std::byte* from, std::size_t done, std::size_t n) {
      if (!k.to_wire) {
        executor_.copy(to, from, n * k.wire_bytes);
        to += n * k.wire_bytes;
        return;
      }
      for_each_run(destination(b, offset + done), n, [&](std::byte* rounded, std::size_t inner, std::size_t run) {
        executor_.to_wire(k, to, from + inner * k.element_bytes, rounded, run);
        to += run * k.wire_bytes;
      });
    });
  }

  void combine_block(int b, std::size_t offset, std::size_t count, source* sources, int n, int own, bool finishing) {
    const auto& k = args_->compute;
    for_each_run(destination(b, offset), count, [&](std::byte* to, std::size_t done, std::size_t run) {
      for_each_run(operand(b, offset + done), run, [&](std::byte* own_data, std::size_t inner, std::size_t elements) {
        sources[own] = {own_data, false};
        executor_.combine(k, to + inner * k.element_bytes, sources, n, elements, finishing ? size_ : 0);
        for (int i = 0; i < n; ++i)
          if (i != own) sources[i].data += elements * (sources[i].on_wire ? k.wire_bytes : k.element_bytes);
      });
    });
  }

  /// This rank's operand. With a narrow wire type, what is sent in this round has been rounded, and lies in its
  /// destination.
  element_position operand(int b, std::size_t offset) const {
    return (flags_[b] & (written | sent_now)) != 0 ? destination(b, offset) : input_of(b, offset);
  }

  [[no_unique_address]] Executor executor_{};
  std::uint8_t* flags_ = nullptr;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

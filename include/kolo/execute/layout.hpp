// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The places of the blocks of a collective: in the input, in the output, or in scratch, piece by piece.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/core/rank.hpp>
#include <kolo/execute/collective_args.hpp>

#include <algorithm>

namespace kolo::inline KOLO_ABI::detail::execute {

/// A position in a memory, in elements.
struct element_position {
  const memory* where = nullptr;
  std::size_t first = 0;
};

/// As `for_each_run`: compiled once, and not for each `f`.
[[gnu::noinline]] inline void for_each_run_of(const element_position& p, std::size_t count, void* f,
                                              void (*call)(void* f, std::byte*, std::size_t, std::size_t)) {
  if (!p.where->find) [[likely]] {
    if (count > 0) call(f, p.where->base + p.first * p.where->element_bytes, 0, count);
    return;
  }
  for (std::size_t done = 0; done < count;) {
    const contiguous_run run = p.where->at(p.first + done);
    if (run.count == 0) [[unlikely]]
      core::throw_error(errc::invalid_argument,
                        {"run(", p.first + done, ") of a view is empty, but the view has more elements"});
    const auto n = std::min(run.count, count - done);
    call(f, run.data, done, n);
    done += n;
  }
}

template <class F>
void call_with_run(void* f, std::byte* data, std::size_t done, std::size_t n) {
  (*static_cast<F*>(f))(data, done, n);
}
/// Calls f(data, elements done, elements) for each contiguous run of `count` elements from `p` on.
template <class F>
void for_each_run(const element_position& p, std::size_t count, F f) {
  for_each_run_of(p, count, &f, &call_with_run<F>);
}

/// Copies elements from one position to another, run by run, by `executor.copy`; skips runs already in place.
void copy_elements(const element_position& from, const element_position& to, std::size_t count, const auto& executor) {
  for_each_run(from, count, [&](const std::byte* source, std::size_t before, std::size_t run) {
    for_each_run({to.where, to.first + before}, run, [&](std::byte* target, std::size_t done, std::size_t some) {
      const auto bytes = to.where->element_bytes;
      if (target != source + done * bytes) executor.copy(target, source + done * bytes, some * bytes);
    });
  });
}

/// Whole cache lines.
constexpr std::size_t in_lines(std::size_t bytes) { return core::rounded_up(bytes, 64); }

/// Puts the received parts of one transfer, and this rank's own operand (the source without data), into the order in
/// which they are combined. `arrived_from(i)`: the data of the i-th peer of the range.
void arrange_sources(const peer_range& from, arrival then, int rank, int size, source* sources, auto arrived_from) {
  const int lowest = from.lowest(size);
  int own = then == arrival::mine_first ? 0 : from.count;
  for (int j = 0; j < from.count; ++j) {
    const int i = (j + lowest) % from.count;
    if (then == arrival::in_rank_order && from.at(i, size) > rank) own = std::min(own, j);
    sources[j < own ? j : j + 1] = {arrived_from(i), true};
  }
  sources[own] = {nullptr, false};
}

/// The blocks of one call on one rank. A call is cut into pieces, the same part of every block; lengths and positions
/// are those of the current piece.
class layout {
 public:
  /// Ranks as the schedule numbers them: the root is 0.
  int virtual_rank() const { return mod(rank_ - args_->root, size_); }
  int real(int virtual_rank) const { return mod(virtual_rank + args_->root, size_); }
  int size() const { return size_; }
  int block_of(const block_range& range, int i, int peer) const {
    return schedule::block_at(range, i, peer, args_->schedule.blocks, schedule::block_sets(args_->collective));
  }

  /// Elements of a block in this piece.
  std::size_t length(int b) const {
    const auto all = whole(b).count, first = piece_ * piece_elements_;
    return first >= all ? 0 : std::min(piece_elements_, all - first);
  }

  /// The block's position in `in`.
  element_position input_of(int b, std::size_t offset) const {
    const bool own_part_only = args_->collective == kind::allgather || args_->collective == kind::gather;
    return {&args_->in,
            whole(b).first - (own_part_only ? part(owner_of(b)).first : 0) + piece_ * piece_elements_ + offset};
  }

  /// Where the block is written.
  element_position destination(int b, std::size_t offset) const {
    if (!is_wanted(b)) return {&scratch_, std::size_t(scratch_index(b)) * piece_elements_ + offset};
    const bool own_part_only = args_->collective == kind::reduce_scatter || args_->collective == kind::scatter;
    return {&args_->out,
            whole(b).first - (own_part_only ? part(owner_of(b)).first : 0) + piece_ * piece_elements_ + offset};
  }

  /// Whether this rank is the root. A schedule with a root of its own is not rotated.
  bool is_root() const { return virtual_rank() == args_->schedule.root; }
  /// Whether the block is promised to this rank.
  bool is_wanted(int b) const {
    return schedule::required_after(args_->collective, virtual_rank(), b, args_->schedule.blocks, size_,
                                    args_->schedule.root);
  }

  /// If a part is one block: whether this rank already has its own part and also needs it, so that it need not travel.
  bool holds_part(int b) const {
    const auto k = args_->collective;
    return (k == kind::allgather || (b == args_->schedule.root && (k == kind::gather || k == kind::scatter))) &&
           args_->schedule.blocks == size_;
  }

  /// If the call has an epilogue: elements in their destination are final.
  void conclude(const element_position& p, std::size_t count) const {
    if (count > 0) args_->epilogue->apply(args_->epilogue->self, p.first, count);
  }

 protected:
  void describe(const collective_args& args, int rank, int size, std::size_t piece_bytes) {
    args_ = &args;
    rank_ = rank;
    size_ = size;
    longest_ = 0;
    if (args.send_counts || args.receive_counts) {
      for (const auto* counts : {args.send_counts, args.receive_counts})
        if (counts) longest_ = std::max(longest_, *std::max_element(counts, counts + size));
    } else {
      longest_ = whole(0).count;
    }
    // In an alltoall the two ends of a block know different longest parts. Their piece sizes still agree for every
    // block they share: either the block fits in one piece of both, or both use the transport's piece size.
    piece_elements_ = std::max<std::size_t>(1, std::min(longest_, piece_bytes / args.compute.element_bytes));
  }

  /// Allocates and fills the arrays of first elements of ragged parts.
  void place_parts(auto take) {
    const auto bytes = std::size_t(size_ + 1) * sizeof(std::size_t);
    if (args_->send_counts) sum_up(args_->send_counts, send_firsts_ = take(bytes));
    if (args_->receive_counts) sum_up(args_->receive_counts, receive_firsts_ = take(bytes));
  }
  void place_scratch(std::byte* base) {
    scratch_ = {
        .base = base, .count = blocks_in_scratch() * piece_elements_, .element_bytes = args_->compute.element_bytes};
  }
  std::size_t scratch_bytes() const { return blocks_in_scratch() * piece_elements_ * args_->compute.element_bytes; }
  std::size_t pieces() const { return longest_ <= piece_elements_ ? 1 : (longest_ - 1) / piece_elements_ + 1; }
  std::size_t all_blocks() const {
    return std::size_t(args_->schedule.blocks * schedule::block_sets(args_->collective) + args_->schedule.scratch);
  }

  const collective_args* args_ = nullptr;
  int rank_ = 0, size_ = 1;
  std::size_t piece_ = 0, piece_elements_ = 1, longest_ = 0;

  /// A block in the whole vector, in elements; also for scratch blocks, which have the length of the block that they
  /// replace.
  [[gnu::noinline]] extent whole(int b) const {
    const auto kind = args_->collective;
    const int blocks = args_->schedule.blocks, index = mod(b, blocks);
    if (!schedule::has_parts(kind)) return block(args_->count, blocks, index);
    const extent mine = part(owner_of(b), schedule::block_sets(kind) == 2 && b >= blocks && b < 2 * blocks);
    if (blocks == size_) return mine;
    const int per_part = blocks / size_;
    const extent inner = block(mine.count, per_part, index % per_part);
    return {mine.first + inner.first, inner.count};
  }

 private:
  void sum_up(const std::size_t* counts, std::size_t* firsts) const {
    if (!firsts) return;  // only measuring
    firsts[0] = 0;
    for (int r = 0; r < size_; ++r) firsts[r + 1] = firsts[r] + counts[r];
  }

  /// The blocks that get a scratch index, used if they are not promised to this rank.
  int blocks_kept() const {
    const auto k = args_->collective;
    const bool keeps = k == kind::reduce_scatter || k == kind::scatter ||
                       (schedule::block_sets(k) == 2 && !core::is_point_to_point(k)) ||
                       ((k == kind::reduce || k == kind::gather) && !is_root());
    if (!keeps) return 0;
    return args_->schedule.blocks * (k == kind::exclusive_scan && rank_ == 0 ? 2 : 1);  // rank 0 is promised nothing
  }
  int scratch_index(int b) const {
    const int in_sets = args_->schedule.blocks * schedule::block_sets(args_->collective);
    if (b < in_sets) return b;
    return b - in_sets + blocks_kept();
  }

  std::size_t blocks_in_scratch() const { return std::size_t(blocks_kept() + args_->schedule.scratch); }

  /// The rank, as numbered by the communicator, that a block belongs to.
  int owner_of(int b) const {
    const int blocks = args_->schedule.blocks, index = mod(b, blocks);
    return real(blocks == size_ ? index : schedule::owner(index, blocks, size_));
  }

  /// The part of one rank in the whole vector.
  extent part(int rank, bool of_second_set = false) const {
    const auto* counts = of_second_set ? args_->receive_counts : args_->send_counts;
    const auto* firsts = of_second_set ? receive_firsts_ : send_firsts_;
    if (counts) return {firsts[rank], counts[rank]};
    if (args_->collective == kind::reduce_scatter) return block(args_->count, size_, rank);
    return {std::size_t(rank) * args_->count, args_->count};
  }

  std::size_t* send_firsts_ = nullptr;
  std::size_t* receive_firsts_ = nullptr;
  memory scratch_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

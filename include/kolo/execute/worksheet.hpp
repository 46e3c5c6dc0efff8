// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where each block of a running collective lies, what has become of it, and how its elements get on and off the wire.
#pragma once

#include <kolo/execute/hands.hpp>
#include <kolo/execute/problem.hpp>

#include <algorithm>
#include <cstring>

namespace kolo::inline v0::detail {

/// An element of a memory.
struct place {
  memory where{};
  std::size_t first = 0;
};

/// Calls f(data, elements done, elements) for each contiguous run of `count` elements from `p` on.
template <class F>
void for_each_run(const place& p, std::size_t count, F f) {
  for (std::size_t done = 0; done < count;) {
    const piece run = p.where.at(p.first + done);
    const auto n = std::min(run.count, count - done);
    f(run.data, done, n);
    done += n;
  }
}

/// All that there is to do where there is one rank: what it has is the result. Needs no scratch.
template <class Hands>
void keep_own(const problem& job, const Hands& hands) {
  if (job.collective == kind::exclusive_scan || job.collective == kind::barrier) return;
  for_each_run({job.in, 0}, job.in.count, [&](const std::byte* from, std::size_t done, std::size_t n) {
    for_each_run({job.out, done}, n, [&](std::byte* to, std::size_t offset, std::size_t run) {
      const auto bytes = job.compute.element_bytes;
      if (to != from + offset * bytes) hands.copy(to, from + offset * bytes, run * bytes);
    });
  });
}

/// How far a transfer's stream of elements has come: block after block of a range.
struct cursor {
  int index = 0;            ///< of the block in the range
  std::size_t offset = 0;   ///< elements of that block that are done
  std::size_t left = 0;     ///< elements of the stream that are not
};

/// Puts the arrivals of one transfer, and this rank's own operand (the source without data), into the order in which they are
/// combined. `arrived_from(i)`: what the i-th peer of the range has sent.
template <class F>
void arrange_sources(const peer_range& from, arrival then, int rank, int size, source* sources, F arrived_from) {
  int count = 0;
  bool own_placed = false;
  const auto place_own = [&] {
    if (!own_placed) sources[count++] = {nullptr, false};
    own_placed = true;
  };
  if (then == arrival::mine_first) place_own();
  const int wrap = std::min(from.count, size - from.first);  // from here on the circular range begins at rank 0 again
  for (int j = 0; j < from.count; ++j) {
    const int i = (j + wrap) % from.count;
    if (then == arrival::in_rank_order && from.at(i, size) > rank) place_own();
    sources[count++] = {arrived_from(i), true};
  }
  place_own();
}

/// The state of one operation on one rank. A call is cut into pieces, the same part of every block, and the whole schedule runs
/// for one piece after the other, so that what is in flight stays in the cache and scratch stays small.
template <class Hands = host_hands>
class worksheet {
 public:
  enum flag : std::uint8_t {
    written = 1,     ///< lies at home; otherwise it still is where `in` has it
    unfinished = 2,  ///< combined, but the operator's `finish` is not applied yet
    sent_now = 4     ///< is being sent in this round, rounded to the wire's type
  };

  /// Bytes of books and of blocks that `begin` needs.
  struct need {
    std::size_t books, blocks;
  };
  static need bytes_needed(const problem& job, int rank, int size, std::size_t piece_bytes) {
    worksheet w;
    w.describe(job, rank, size, piece_bytes);
    const auto books = w.carve(nullptr, nullptr);
    return {books, w.scratch_.count * w.scratch_.element_bytes};
  }

  void begin(const problem& job, int rank, int size, std::size_t piece_bytes, std::byte* books, std::byte* blocks, const Hands& hands) {
    hands_ = hands;
    describe(job, rank, size, piece_bytes);
    carve(books, blocks);
    if (job.send_counts) sum_up(job.send_counts, send_firsts_);
    if (job.receive_counts) sum_up(job.receive_counts, receive_firsts_);
    begin_piece(0);
  }

  bool next_piece() {
    if ((piece_ + 1) * piece_elements_ >= longest_) return false;
    begin_piece(piece_ + 1);
    return true;
  }

  /// This rank and others as the schedule numbers them: the root is 0.
  int virtual_rank() const { return mod(rank_ - job_->root, size_); }
  int real(int virtual_rank) const { return mod(virtual_rank + job_->root, size_); }
  int size() const { return size_; }
  const problem& job() const { return *job_; }
  step at(int round) const { return job_->schedule.at(job_->schedule.self, virtual_rank(), size_, round); }
  int block_of(const block_range& range, int i, int peer) const {
    return block_at(range, i, peer, job_->schedule.blocks, rings(job_->collective));
  }

  cursor start(const block_range& range, int peer) const {
    cursor c;
    for (int i = 0; i < range.count; ++i) c.left += length(block_of(range, i, peer));
    return c;
  }

  /// Calls f(block, offset, elements) for the next `count` elements of a stream.
  template <class F>
  void advance(cursor& c, const block_range& range, int peer, std::size_t count, F f) {
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

  /// Before a range is sent in a round from which on nothing is combined any more: what the operator does at the end.
  void finish_before_sending(const block_range& range, int peers) {
    if (job_->compute.finishes) for_each_block(range, peers, [&](int b) { finish(b); });
  }

  /// The next elements of a stream, as they travel.
  void pack(cursor& c, const block_range& range, int peer, std::size_t count, std::byte* to) {
    advance(c, range, peer, count, [&](int b, std::size_t offset, std::size_t n) {
      copy_to_wire(b, offset, n, to);
      to += n * job_->compute.wire_bytes;
    });
  }

  /// Elements that arrived replace those of a stream.
  void replace(cursor& c, const block_range& range, int peer, std::size_t count, const std::byte* from) {
    advance(c, range, peer, count, [&](int b, std::size_t offset, std::size_t n) {
      for_each_run(home(b, offset), n, [&](std::byte* to, std::size_t, std::size_t run) {
        if (job_->compute.from_wire) hands_.from_wire(job_->compute, to, from, run);
        else hands_.copy(to, from, run * job_->compute.wire_bytes);
        from += run * job_->compute.wire_bytes;
      });
    });
  }

  /// Elements that arrived are combined with those of a stream. `sources`: in the order in which they are combined; the one
  /// without data stands for this rank's own. They are advanced on the way.
  void combine(cursor& c, const block_range& range, std::size_t count, source* sources, int n, bool finishing) {
    int own = 0;
    while (sources[own].data) ++own;
    advance(c, range, 0, count, [&](int b, std::size_t offset, std::size_t elements) {
      combine_block(b, offset, elements, sources, n, own, finishing);
    });
  }

  /// A transfer to oneself.
  void combine_locally(const transfer& t, bool finishing) {
    for (int i = 0; i < t.receive.count; ++i) {
      const int from = block_of(t.send, i, 0), to = block_of(t.receive, i, 0);
      for_each_run(current(from, 0), length(from), [&](std::byte* theirs, std::size_t done, std::size_t n) {
        if (t.then == arrival::replace) {
          for_each_run(home(to, done), n, [&](std::byte* mine, std::size_t offset, std::size_t run) {
            hands_.copy(mine, theirs + offset * job_->compute.element_bytes, run * job_->compute.element_bytes);
          });
        } else {
          source both[] = {{theirs, false}, {nullptr, false}};
          if (t.then == arrival::mine_first) std::swap(both[0], both[1]);
          combine_block(to, done, n, both, 2, t.then == arrival::mine_first ? 0 : 1, finishing);
        }
      });
    }
  }

  /// A round begins in which the range is sent. Where the wire's type is narrower, sending rounds the sender's value too, so that
  /// all ranks go on with the same one; the rounded value lies at home.
  void begin_sending(const block_range& range, int peers) {
    if (!job_->compute.to_wire) return;
    for_each_block(range, peers, [&](int b) { flags_[b] |= sent_now; });
  }

  /// The round has ended. First said for all that was sent, then for all that was received.
  void end_sending(const block_range& range, int peers) {
    if (!job_->compute.to_wire) return;
    for_each_block(range, peers, [&](int b) { flags_[b] = static_cast<std::uint8_t>((flags_[b] & unfinished) | written); });
  }
  void end_receiving(const block_range& range, int peers, bool is_finished) {
    for_each_block(range, peers, [&](int b) { flags_[b] = static_cast<std::uint8_t>(written | (is_finished ? 0 : unfinished)); });
  }

  /// The schedule has ended for this piece: whatever is promised has to be at home, and finished.
  void end_piece() {
    const int blocks = job_->schedule.blocks;
    for (int b = 0; b < blocks * rings(job_->collective); ++b) {
      if (!is_wanted(b)) continue;
      finish(b);
      if ((flags_[b] & written) != 0) {
        if (job_->collective == kind::allreduce && job_->compute.to_wire) round(b);
        continue;
      }
      if (length(b) == 0 || !holds_before(job_->collective, virtual_rank(), b, blocks, size_)) continue;
      for_each_run(source_of(b, 0), length(b), [&](const std::byte* from, std::size_t done, std::size_t n) {
        for_each_run(home(b, done), n, [&](std::byte* to, std::size_t offset, std::size_t run) {
          const auto bytes = job_->compute.element_bytes;
          if (to != from + offset * bytes) hands_.copy(to, from + offset * bytes, run * bytes);
        });
      });
    }
  }

  /// Elements of a block in this piece.
  std::size_t length(int b) const {
    const auto all = whole(b).count, first = piece_ * piece_elements_;
    return first >= all ? 0 : std::min(piece_elements_, all - first);
  }

  /// Where the block is now, and where it is written.
  place current(int b, std::size_t offset) const { return (flags_[b] & written) != 0 ? home(b, offset) : source_of(b, offset); }
  place home(int b, std::size_t offset) const {
    const auto kind = job_->collective;
    const int blocks = job_->schedule.blocks;
    const bool in_ring = b < blocks * rings(kind);
    const bool at_out = in_ring && (rings(kind) == 2 ? b >= blocks
                                    : has_parts(kind) || is_rooted(kind) ? is_wanted(b) : true);
    if (!at_out) return {scratch_, static_cast<std::size_t>(scratch_index(b)) * piece_elements_ + offset};
    const bool own_part_only = kind == kind::reduce_scatter || kind == kind::scatter;
    return {job_->out, whole(b).first - (own_part_only ? part(owner_of(b)).first : 0) + piece_ * piece_elements_ + offset};
  }

 private:
  void describe(const problem& job, int rank, int size, std::size_t piece_bytes) {
    job_ = &job;
    rank_ = rank;
    size_ = size;
    longest_ = 0;
    if (job.send_counts || job.receive_counts) {
      for (const auto* counts : {job.send_counts, job.receive_counts})
        if (counts) longest_ = std::max(longest_, *std::max_element(counts, counts + size));
    } else {
      longest_ = whole(0).count;
    }
    piece_elements_ = std::max<std::size_t>(1, std::min(longest_, piece_bytes / job.compute.element_bytes));
  }

  std::size_t carve(std::byte* memory_from, std::byte* blocks) {
    std::size_t used = 0;
    const auto take = [&](std::size_t bytes) {
      auto* p = memory_from ? memory_from + used : nullptr;
      used += (bytes + 63) / 64 * 64;
      return p;
    };
    const auto prefix_bytes = static_cast<std::size_t>(size_ + 1) * sizeof(std::size_t);
    const auto all_blocks = static_cast<std::size_t>(job_->schedule.blocks * rings(job_->collective) + job_->schedule.scratch);
    if (job_->send_counts) send_firsts_ = reinterpret_cast<std::size_t*>(take(prefix_bytes));
    if (job_->receive_counts) receive_firsts_ = reinterpret_cast<std::size_t*>(take(prefix_bytes));
    flags_ = reinterpret_cast<std::uint8_t*>(take(all_blocks));
    const auto blocks_in_scratch = static_cast<std::size_t>(keeps_blocks_in_scratch() ? job_->schedule.blocks : 0) + static_cast<std::size_t>(job_->schedule.scratch);
    scratch_ = {.base = blocks, .count = blocks_in_scratch * piece_elements_, .element_bytes = job_->compute.element_bytes};
    return used;
  }

  /// A reduce that must not be rotated ends at its schedule's own root.
  bool ends_here() const { return virtual_rank() == (job_->collective == kind::reduce ? job_->schedule.root : 0); }
  bool is_wanted(int b) const {
    if (job_->collective == kind::reduce) return ends_here() && b < job_->schedule.blocks;
    return wanted_after(job_->collective, virtual_rank(), b, job_->schedule.blocks, size_);
  }

  bool keeps_blocks_in_scratch() const {
    const auto k = job_->collective;
    return k == kind::reduce_scatter || k == kind::scatter || rings(k) == 2 || ((k == kind::reduce || k == kind::gather) && !ends_here());
  }
  int scratch_index(int b) const {
    const int in_rings = job_->schedule.blocks * rings(job_->collective);
    if (b < in_rings) return b;
    return b - in_rings + (keeps_blocks_in_scratch() ? job_->schedule.blocks : 0);
  }

  void sum_up(const std::size_t* counts, std::size_t* firsts) const {
    firsts[0] = 0;
    for (int r = 0; r < size_; ++r) firsts[r + 1] = firsts[r] + counts[r];
  }

  template <class F>
  void for_each_block(const block_range& range, int peers, F f) {
    for (int peer = 0; peer < (range.per_peer == 0 ? 1 : peers); ++peer)
      for (int i = 0; i < range.count; ++i) f(block_of(range, i, peer));
  }

  void begin_piece(std::size_t index) {
    piece_ = index;
    std::memset(flags_, 0, static_cast<std::size_t>(job_->schedule.blocks * rings(job_->collective) + job_->schedule.scratch));
  }

  /// The rank, in real numbers, that a block belongs to.
  int owner_of(int b) const { return real(owner(b % job_->schedule.blocks, job_->schedule.blocks, size_)); }

  /// The part of one rank in the whole vector.
  extent part(int rank, bool of_second_ring = false) const {
    const auto* counts = of_second_ring ? job_->receive_counts : job_->send_counts;
    const auto* firsts = of_second_ring ? receive_firsts_ : send_firsts_;
    if (counts) return {firsts[rank], counts[rank]};
    if (job_->collective == kind::reduce_scatter) return block(job_->count, size_, rank);
    return {static_cast<std::size_t>(rank) * job_->count, job_->count};
  }

  /// A block in the whole vector, in elements; also for scratch blocks, which are as long as the one they stand for.
  extent whole(int b) const {
    const auto kind = job_->collective;
    const int blocks = job_->schedule.blocks, index = b % blocks;
    if (!has_parts(kind)) return block(job_->count, blocks, index);
    const extent mine = part(owner_of(b), rings(kind) == 2 && b >= blocks && b < 2 * blocks);
    const int per_part = blocks / size_;
    const extent inner = block(mine.count, per_part, index % per_part);
    return {mine.first + inner.first, inner.count};
  }

  /// Where `in` has the block.
  place source_of(int b, std::size_t offset) const {
    const bool own_part_only = job_->collective == kind::allgather || job_->collective == kind::gather;
    return {job_->in, whole(b).first - (own_part_only ? part(owner_of(b)).first : 0) + piece_ * piece_elements_ + offset};
  }

  void finish(int b) {
    if ((flags_[b] & unfinished) == 0) return;
    flags_[b] = written;
    if (!job_->compute.finishes) return;
    for_each_run(home(b, 0), length(b), [&](std::byte* data, std::size_t, std::size_t n) {
      const source only{data, false};
      hands_.combine(job_->compute, data, &only, 1, n, size_);
    });
  }

  /// Some ranks have the result because they combined it, others because it was sent to them: all must have the same.
  void round(int b) {
    for_each_run(home(b, 0), length(b), [&](std::byte* data, std::size_t, std::size_t n) { hands_.round(job_->compute, data, n); });
  }

  void copy_to_wire(int b, std::size_t offset, std::size_t count, std::byte* to) {
    const auto& k = job_->compute;
    for_each_run(current(b, offset), count, [&](std::byte* from, std::size_t done, std::size_t n) {
      if (!k.to_wire) {
        hands_.copy(to, from, n * k.wire_bytes);
        to += n * k.wire_bytes;
        return;
      }
      for_each_run(home(b, offset + done), n, [&](std::byte* rounded, std::size_t inner, std::size_t run) {
        hands_.to_wire(k, to, from + inner * k.element_bytes, rounded, run);
        to += run * k.wire_bytes;
      });
    });
  }

  void combine_block(int b, std::size_t offset, std::size_t count, source* sources, int n, int own, bool finishing) {
    const auto& k = job_->compute;
    for_each_run(home(b, offset), count, [&](std::byte* to, std::size_t done, std::size_t run) {
      for_each_run(operand(b, offset + done), run, [&](std::byte* own_data, std::size_t inner, std::size_t elements) {
        sources[own] = {own_data, false};
        hands_.combine(k, to + inner * k.element_bytes, sources, n, elements, finishing ? size_ : 0);
        for (int i = 0; i < n; ++i)
          if (i != own) sources[i].data += elements * (sources[i].on_wire ? k.wire_bytes : k.element_bytes);
      });
    });
  }

  /// This rank's operand. With a narrow wire type, what is sent in this round has been rounded, and lies at home.
  place operand(int b, std::size_t offset) const { return (flags_[b] & (written | sent_now)) != 0 ? home(b, offset) : source_of(b, offset); }

  [[no_unique_address]] Hands hands_{};
  const problem* job_ = nullptr;
  int rank_ = 0, size_ = 1;
  std::size_t piece_ = 0, piece_elements_ = 1, longest_ = 0;
  std::size_t* send_firsts_ = nullptr;
  std::size_t* receive_firsts_ = nullptr;
  std::uint8_t* flags_ = nullptr;
  memory scratch_{};
};

}  // namespace kolo::inline v0::detail

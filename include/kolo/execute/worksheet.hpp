// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What has become of each block of a running collective, and how its elements get on and off the wire.
#pragma once

#include <kolo/execute/hands.hpp>
#include <kolo/execute/layout.hpp>

#include <algorithm>
#include <cstring>

namespace kolo::inline v0::detail {

/// All that there is to do where there is one rank: what it has is the result. Needs no scratch.
template <class Hands>
void keep_own(const problem& job, const Hands& hands) {
  if (job.collective == kind::exclusive_scan || job.collective == kind::barrier) return;
  for_each_run({&job.in, 0}, job.in.count, [&](const std::byte* from, std::size_t done, std::size_t n) {
    for_each_run({&job.out, done}, n, [&](std::byte* to, std::size_t offset, std::size_t run) {
      const auto bytes = job.compute.element_bytes;
      if (to != from + offset * bytes) hands.copy(to, from + offset * bytes, run * bytes);
    });
  });
  if (job.then) job.then->apply(job.then->self, 0, job.out.count);
}

/// How far a transfer's stream of elements has come: block after block of a range.
struct cursor {
  int index = 0;            ///< of the block in the range
  std::size_t offset = 0;   ///< elements of that block that are done
  std::size_t left = 0;     ///< elements of the stream that are not
};

/// The state of one operation on one rank. A call is cut into pieces, the same part of every block, and the whole schedule runs
/// for one piece after the other, so that what is in flight stays in the cache and scratch stays small.
template <class Hands = host_hands>
class worksheet : public layout {
 public:
  enum flag : std::uint8_t {
    written = 1,     ///< lies at home; otherwise it still is where `in` has it
    unfinished = 2,  ///< combined, but the operator's `finish` is not applied yet
    sent_now = 4     ///< is being sent in this round, rounded to the wire's type
  };

  /// Bytes of books and of blocks that `begin` needs, and the pieces that there are.
  struct need {
    std::size_t books, blocks, pieces;
  };
  static need bytes_needed(const problem& job, int rank, int size, std::size_t piece_bytes) {
    worksheet w;
    w.describe(job, rank, size, piece_bytes);
    return {w.carve(nullptr, nullptr), w.scratch_bytes(), w.pieces()};
  }

  void begin(const problem& job, int rank, int size, std::size_t piece_bytes, std::byte* books, std::byte* blocks, const Hands& hands) {
    hands_ = hands;
    describe(job, rank, size, piece_bytes);
    carve(books, blocks);
    begin_piece(0);
  }

  bool next_piece(std::size_t further = 1) {
    if (piece_ + further >= pieces()) return false;
    begin_piece(piece_ + further);
    return true;
  }

  step at(int round) const { return job_->schedule.at(job_->schedule.self, virtual_rank(), size_, round); }
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
    for (int b = 0; b < job_->schedule.blocks * rings(job_->collective); ++b) {
      if (!is_wanted(b)) continue;
      bring_home(b);
      if (job_->then) conclude(home(b, 0), length(b));
    }
  }

  /// Where the block is now.
  place current(int b, std::size_t offset) const { return (flags_[b] & written) != 0 ? home(b, offset) : source_of(b, offset); }
 private:
  std::size_t carve(std::byte* memory_from, std::byte* blocks) {
    std::size_t used = 0;
    const auto take = [&](std::size_t bytes) {
      auto* p = memory_from ? memory_from + used : nullptr;
      used += (bytes + 63) / 64 * 64;
      return p;
    };
    place_parts([&](std::size_t bytes) { return reinterpret_cast<std::size_t*>(take(bytes)); });
    flags_ = reinterpret_cast<std::uint8_t*>(take(all_blocks()));
    place_scratch(blocks);
    return used;
  }

  template <class F>
  void for_each_block(const block_range& range, int peers, F f) {
    for (int peer = 0; peer < (range.per_peer == 0 ? 1 : peers); ++peer)
      for (int i = 0; i < range.count; ++i) f(block_of(range, i, peer));
  }

  void begin_piece(std::size_t index) {
    piece_ = index;
    std::memset(flags_, 0, all_blocks());
  }

  void bring_home(int b) {
    finish(b);
    if ((flags_[b] & written) != 0) {
      if (job_->collective == kind::allreduce && job_->compute.to_wire) round(b);
      return;
    }
    if (length(b) == 0 || !holds_before(job_->collective, virtual_rank(), b, job_->schedule.blocks, size_, job_->schedule.root)) return;
    for_each_run(source_of(b, 0), length(b), [&](const std::byte* from, std::size_t done, std::size_t n) {
      for_each_run(home(b, done), n, [&](std::byte* to, std::size_t offset, std::size_t run) {
        const auto bytes = job_->compute.element_bytes;
        if (to != from + offset * bytes) hands_.copy(to, from + offset * bytes, run * bytes);
      });
    });
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
  std::uint8_t* flags_ = nullptr;
};

}  // namespace kolo::inline v0::detail

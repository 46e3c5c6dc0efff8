// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor: a sum of floats over two ranks, written by hand, as the bound of kolo's time.
#pragma once

#include "floor_loops.hpp"

#include <atomic>

namespace kolo_bench {

/// No types, operators, errors, deadlines or sleeping: only the fewest transfers of cache lines. With plain stores a rank never writes a line again that the
/// peer has read: the reader is the next writer. The fastest way depends on the size and on the distance of the cores: all ways are measured, and the fastest
/// is the floor.
class floor_pair {
 public:
  using storing = loops::storing;

  /// Bytes of zeroed shared memory for the two ranks.
  static std::size_t bytes() { return sizeof(layout); }
  floor_pair(std::byte* shared, int rank) : shared_{*reinterpret_cast<layout*>(shared)}, rank_{rank} {}

  static constexpr std::size_t line_floats = 14, block_floats = 8 * 1024;

  /// For private buffers, through slots: how inputs are written to the slots, sums over them, and results to the output.
  template <storing Put = storing::plain, storing Sum = storing::plain, storing Result = storing::plain>
  void staged(const float* in, float* out, std::size_t n) {
    if (n <= line_floats) return by_line(in, out, n);
    if (n <= block_floats) return by_block(in, out, n);
    by_slots<Put, Sum, Result>(in, out, n);
  }

  /// Both ranks map both ranks' buffers; all are in place, or none. Each rank reduces one half and stores it in both results.
  template <storing Own = storing::plain, storing Peers = storing::moved>
  void direct(const float* in, float* out, const float* peer_in, float* peer_out, std::size_t n) {
    const std::size_t half = n / 2 / loops::line * loops::line, first = rank_ == 0 ? 0 : half,
                      count = rank_ == 0 ? half : n - half;
    meet();
    loops::add_to_both<Own, Peers>(in + first, peer_in + first, out + first, peer_out + first, count);
    loops::settle_stores<Own, Peers>();
    meet();
  }

  /// Each rank reads all and stores its own result: more reads, and nothing that the peer has to fetch. Not in place.
  void direct_whole(const float* in, float* out, const float* peer_in, std::size_t n) {
    meet();
    loops::add(in, peer_in, out, n);
    meet();
  }

  /// One cache line there and back.
  void ping_pong() {
    ++turn_;
    if (rank_ == 0) shared_.ping.n.store(turn_, std::memory_order_release), await(shared_.pong.n, turn_);
    else await(shared_.ping.n, turn_), shared_.pong.n.store(turn_, std::memory_order_release);
  }

 private:
  static constexpr std::size_t slot_floats = 16 * 1024, slots = 4;
  struct alignas(128) number {
    std::atomic<std::uint64_t> n;
  };
  struct alignas(128) line {
    float data[line_floats];
    std::atomic<std::uint64_t> n;
  };
  struct alignas(128) block {
    std::atomic<std::uint64_t> n;
    alignas(128) float data[block_floats];
  };
  struct layout {
    number ping, pong, arrived[2], put[2], reduced[2];
    line lines[2];
    block blocks[2];
    alignas(4096) float slot[2][slots][slot_floats];
  };

  static void await(const std::atomic<std::uint64_t>& a, std::uint64_t n) {
    while (a.load(std::memory_order_acquire) < n) _mm_pause();
  }

  /// Signals the peer that this rank's buffers are ready, or no longer used, and waits for the peer's signal.
  void meet() {
    shared_.arrived[rank_].n.store(++met_, std::memory_order_release);
    await(shared_.arrived[1 - rank_].n, met_);
  }

  /// The two ranks exchange roles with every call, as in by_block: a rank writes the line that it read in the call before.
  void by_line(const float* in, float* out, std::size_t n) {
    const auto e = ++small_;
    line &mine = shared_.lines[(e + static_cast<unsigned>(rank_)) % 2],
         &theirs = shared_.lines[(e + 1 + static_cast<unsigned>(rank_)) % 2];
    for (std::size_t i = 0; i < n; ++i) mine.data[i] = in[i];
    mine.n.store(e, std::memory_order_release);
    await(theirs.n, e);
    for (std::size_t i = 0; i < n; ++i) out[i] = in[i] + theirs.data[i];
  }

  void by_block(const float* in, float* out, std::size_t n) {
    const auto e = ++medium_;
    block &mine = shared_.blocks[(e + static_cast<unsigned>(rank_)) % 2],
          &theirs = shared_.blocks[(e + 1 + static_cast<unsigned>(rank_)) % 2];
    loops::copy(in, mine.data, n);
    mine.n.store(e, std::memory_order_release);
    await(theirs.n, e);
    loops::add(in, theirs.data, out, n);
  }

  /// For each pair of pieces: writes the peer's piece to this rank's slot, where the peer reduces it and this rank reads the result.
  template <storing Put, storing Sum, storing Result>
  void by_slots(const float* in, float* out, std::size_t n) {
    const std::size_t pair = 2 * slot_floats, pairs = (n + pair - 1) / pair;
    const auto piece = [&](std::size_t k, int r) {
      const std::size_t begin = k * pair, length = n - begin < pair ? n - begin : pair,
                        half = length / 2 / loops::line * loops::line;
      struct part {
        std::size_t first, count;
      };
      return r == 0 ? part{begin, half} : part{begin + half, length - half};
    };
    const auto r = static_cast<std::size_t>(rank_);
    for (std::size_t k = 0; k < pairs + 2; ++k) {
      if (k < pairs) {
        const auto p = piece(k, 1 - rank_);
        loops::copy<Put>(in + p.first, shared_.slot[r][(large_ + k) % slots], p.count);
        loops::settle_stores<Put>();
        shared_.put[r].n.store(large_ + k + 1, std::memory_order_release);
      }
      if (k >= 1 && k - 1 < pairs) {
        const auto p = piece(k - 1, rank_);
        float* const theirs = shared_.slot[1 - r][(large_ + k - 1) % slots];
        await(shared_.put[1 - r].n, large_ + k);
        loops::add_to_both<Sum, Result>(in + p.first, theirs, theirs, out + p.first, p.count);
        loops::settle_stores<Sum>();
        shared_.reduced[r].n.store(large_ + k, std::memory_order_release);
      }
      if (k >= 2) {
        const auto p = piece(k - 2, 1 - rank_);
        await(shared_.reduced[1 - r].n, large_ + k - 1);
        loops::copy<Result>(shared_.slot[r][(large_ + k - 2) % slots], out + p.first, p.count);
      }
    }
    loops::settle_stores<Result>();
    large_ += pairs;
  }

  layout& shared_;
  int rank_;
  std::uint64_t turn_ = 0, met_ = 0, small_ = 0, medium_ = 0, large_ = 0;
};

}  // namespace kolo_bench

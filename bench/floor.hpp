// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor: a sum of floats over two ranks, written by hand for that alone, with which kolo's time is compared.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <emmintrin.h>

namespace kolo_bench {

/// No types, operators, errors, deadlines or sleeping: nothing but the fewest transfers of cache lines. It never lets the writer of a
/// line write it again after the peer has read it: the reader is the next writer.
class floor_pair {
 public:
  /// Bytes of zeroed shared memory that the two need.
  static std::size_t bytes() { return sizeof(layout); }
  floor_pair(std::byte* shared, int rank) : shared_{*reinterpret_cast<layout*>(shared)}, rank_{rank} {}

  /// Private buffers, through slots.
  void staged(const float* in, float* out, std::size_t n) {
    if (n <= line_floats) return by_line(in, out, n);
    if (n <= block_floats) return by_block(in, out, n);
    by_slots(in, out, n);
  }

  /// Both ranks map both ranks' buffers; either all are in place or none is.
  void direct(const float* in, float* out, const float* peer_in, float* peer_out, std::size_t n) {
    if (n <= block_floats) return staged(in, out, n);
    const bool streaming = in != out && n >= 2 * 1024 * 1024;
    const std::size_t half = n / 2, first = rank_ == 0 ? 0 : half, end = rank_ == 0 ? half : n;
    meet();
    for (std::size_t i = first; i < end; i += tile_floats) {
      const auto some = end - i < tile_floats ? end - i : tile_floats;
      if (streaming) {
        alignas(64) float tile[tile_floats];
        add(in + i, peer_in + i, tile, some);
        copy(out + i, tile, some, true);
        copy(peer_out + i, tile, some, true);
      } else {
        add(in + i, peer_in + i, out + i, some);
        copy(peer_out + i, out + i, some, false);
      }
    }
    if (streaming) _mm_sfence();
    meet();
  }

  /// One cache line there and back.
  void ping_pong() {
    ++turn_;
    if (rank_ == 0) shared_.ping.n.store(turn_, std::memory_order_release), await(shared_.pong.n, turn_);
    else await(shared_.ping.n, turn_), shared_.pong.n.store(turn_, std::memory_order_release);
  }

 private:
  static constexpr std::size_t line_floats = 14, block_floats = 8 * 1024, slot_floats = 16 * 1024, slots = 4,
                               tile_floats = 1024;
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

  /// Tells the peer that this rank's buffers are ready, or done with, and waits for the same news.
  void meet() {
    shared_.arrived[rank_].n.store(++met_, std::memory_order_release);
    await(shared_.arrived[1 - rank_].n, met_);
  }

  static void add(const float* a, const float* b, float* to, std::size_t n) {
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) {
      __m128 x[4];
      for (int j = 0; j < 4; ++j) x[j] = _mm_add_ps(_mm_loadu_ps(a + i + 4 * j), _mm_loadu_ps(b + i + 4 * j));
      for (int j = 0; j < 4; ++j) _mm_storeu_ps(to + i + 4 * j, x[j]);
    }
    for (; i < n; ++i) to[i] = a[i] + b[i];
  }

  // The two exchange roles with every call: a rank writes what it has read in the call before.

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
    std::memcpy(mine.data, in, n * sizeof(float));
    mine.n.store(e, std::memory_order_release);
    await(theirs.n, e);
    add(in, theirs.data, out, n);
  }

  /// Pair after pair of pieces: put the peer's piece raw into my slot, where it reduces it and from where I read the result back.
  void by_slots(const float* in, float* out, std::size_t n) {
    const std::size_t pair = 2 * slot_floats, pairs = (n + pair - 1) / pair;
    const bool streaming = in != out && n >= 2 * 1024 * 1024;
    const auto piece = [&](std::size_t k, int r) {  // (first, count)
      const std::size_t begin = k * pair, length = n - begin < pair ? n - begin : pair, half = length / 2;
      struct part {
        std::size_t first, count;
      };
      return r == 0 ? part{begin, half} : part{begin + half, length - half};
    };
    const auto r = static_cast<std::size_t>(rank_);
    for (std::size_t k = 0; k < pairs + 2; ++k) {
      if (k < pairs) {
        const auto p = piece(k, 1 - rank_);
        std::memcpy(shared_.slot[r][(large_ + k) % slots], in + p.first, p.count * sizeof(float));
        shared_.put[r].n.store(large_ + k + 1, std::memory_order_release);
      }
      if (k >= 1 && k - 1 < pairs) {
        const auto p = piece(k - 1, rank_);
        float* const theirs = shared_.slot[1 - r][(large_ + k - 1) % slots];
        await(shared_.put[1 - r].n, large_ + k);
        for (std::size_t i = 0; i < p.count; i += tile_floats) {
          const auto some = p.count - i < tile_floats ? p.count - i : tile_floats;
          add(in + p.first + i, theirs + i, theirs + i, some);
          copy(out + p.first + i, theirs + i, some, streaming);
        }
        if (streaming) _mm_sfence();
        shared_.reduced[r].n.store(large_ + k, std::memory_order_release);
      }
      if (k >= 2) {
        const auto p = piece(k - 2, 1 - rank_);
        await(shared_.reduced[1 - r].n, large_ + k - 1);
        copy(out + p.first, shared_.slot[r][(large_ + k - 2) % slots], p.count, streaming);
        if (streaming) _mm_sfence();
      }
    }
    large_ += pairs;
  }

  static void copy(float* to, const float* from, std::size_t n, bool streaming) {
    if (!streaming || reinterpret_cast<std::uintptr_t>(to) % 16 != 0)
      return void(std::memcpy(to, from, n * sizeof(float)));
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
    for (; i < n; ++i) to[i] = from[i];
  }

  layout& shared_;
  int rank_;
  std::uint64_t turn_ = 0, met_ = 0, small_ = 0, medium_ = 0, large_ = 0;
};

}  // namespace kolo_bench

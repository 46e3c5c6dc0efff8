// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An allreduce in one pass over memory that all ranks address: each rank combines its part of all operands, and writes it to all results.
#pragma once

#include <kolo/core/rank.hpp>
#include <kolo/cuda/hands.hpp>

#include <algorithm>

namespace kolo::inline v0::cuda::detail {

/// A rank's part of a vector: whole chunks of `unit` elements but at the end, so that every part begins where 16 bytes may be read at once.
KOLO_HOST_DEVICE constexpr extent fused_part(std::size_t count, int size, int rank, std::size_t unit) {
  const extent part = block((count + unit - 1) / unit, size, rank);
  const std::size_t first = part.first * unit, end = (part.first + part.count) * unit;
  return {first < count ? first : count, (end < count ? end : count) - (first < count ? first : count)};
}

/// As `combining`, into as many places as there are sources; whoever reads an element of all sources also writes it to all places, so they may be the same.
template <class T, class Op, std::size_t Most, std::size_t N>
struct combining_for_all {
  combining<T, Op, Most, N> one;
  std::size_t count;
  std::byte* to[Most];

  KOLO_HOST_DEVICE void operator()(std::size_t i) const { do_chunk<combining_for_all, N>(*this, i); }

  template <std::size_t U>
  KOLO_HOST_DEVICE void some(std::size_t i) const {
    const auto result = one.template result<U>(i);
    for (int k = 0; k < one.n; ++k) store(to[k], i, result, one.by_bytes);
  }
};

template <class T, class Op>
struct fused_allreduce {
  static constexpr std::size_t N = at_once<T>, few = 8, many = functions_of<T, Op>::many;

  /// Puts rank's part on the stream: out[q][i] = in[0][i] op in[1][i] ..., finished; of `size` vectors of `count` elements.
  /// Order   of the ranks, as two_shot has it: the same bits.
  static void begin(cudaStream_t stream, const Op& op, const std::byte* const* in, std::byte* const* out, std::size_t count, int size, int rank) {
    const extent part = fused_part(count, size, rank, N);
    if (part.count == 0) return;
    if (std::size_t(size) <= few) pass<few>(stream, op, in, out, part, size);
    else pass<many>(stream, op, in, out, part, size);
  }

 private:
  template <std::size_t Most>
  static void pass(cudaStream_t stream, const Op& op, const std::byte* const* in, std::byte* const* out, extent part, int size) {
    if (N > 1 && fits<N>(in, out, size)) launch_it<Most, N>(stream, op, in, out, part, size, false);
    else launch_it<Most, 1>(stream, op, in, out, part, size, !fits<1>(in, out, size));
  }
  template <std::size_t Most, std::size_t U>
  static void launch_it(cudaStream_t stream, const Op& op, const std::byte* const* in, std::byte* const* out, extent part, int size, bool by_bytes) {
    combining_for_all<T, Op, Most, U> work{{op, nullptr, part.count, size, size, by_bytes, {}}, part.count, {}};
    for (int k = 0; k < size; ++k) {
      work.one.from[k] = {in[k] + part.first * sizeof(T), false};
      work.to[k] = out[k] + part.first * sizeof(T);
    }
    begin_work(stream, chunks(part.count, U), work);
  }
  template <std::size_t U>
  static bool fits(const std::byte* const* in, std::byte* const* out, int size) {
    return std::all_of(in, in + size, is_aligned<T, U>) && std::all_of(out, out + size, is_aligned<T, U>);
  }
};

}  // namespace kolo::inline v0::cuda::detail

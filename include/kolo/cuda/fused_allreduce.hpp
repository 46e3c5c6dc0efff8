// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An allreduce in one pass over memory that all ranks address: each rank combines its part of all operands, and writes
// it to all results.
#pragma once

#include <kolo/core/rank.hpp>
#include <kolo/cuda/executor.hpp>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// A rank's part of a vector: whole chunks of `unit` elements but at the end, so that every part begins where 16 bytes
/// may be read at once.
KOLO_HOST_DEVICE constexpr extent fused_part(std::size_t count, int size, int rank, std::size_t unit) {
  const extent part = block((count + unit - 1) / unit, size, rank);
  const std::size_t first = part.first * unit, end = (part.first + part.count) * unit;
  return {first < count ? first : count, (end < count ? end : count) - (first < count ? first : count)};
}

template <class T, class Op>
struct fused_allreduce {
  using functions = functions_of<T, Op>;

  /// Puts rank's part on the stream: out[q][i] = in[0][i] op in[1][i] ..., finished; of `size` vectors of `count`
  /// elements.
  /// Order   of the ranks, as two_shot has it: the same bits.
  static void begin(cudaStream_t stream, const Op& op, const std::byte* const* in, std::byte* const* out,
                    std::size_t count, int size, int rank) {
    const extent part = fused_part(count, size, rank, elements_per_load<T>);
    source from[functions::many];
    std::byte* to[functions::many];
    for (int k = 0; k < size; ++k) {
      from[k] = {in[k] + part.first * sizeof(T), false};
      to[k] = out[k] + part.first * sizeof(T);
    }
    functions::combine_to_all(stream, op, {to, size, from, size, part.count, size});
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

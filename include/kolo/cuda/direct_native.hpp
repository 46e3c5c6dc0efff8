// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collective that ranks run as one kernel each, where all ranks address the memory of all.
#pragma once

#include <kolo/core/rank.hpp>
#include <kolo/cuda/direct.hpp>
#include <kolo/cuda/executor.hpp>
#include <kolo/select/native.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::cuda {

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

}  // namespace detail::cuda

/// An allreduce as one kernel on each rank, in one pass over all ranks' memory: of any
/// elements and operator that travel as they are.
template <class Batch, class PeerMemory>
struct native_of<cuda::direct_transport<Batch, PeerMemory>> {
  using transport = cuda::direct_transport<Batch, PeerMemory>;
  static constexpr bool finishes = true;     ///< the kernel does
  static constexpr bool keeps_order = true;  ///< of the ranks
  static constexpr bool comes_first = true;
  static constexpr std::size_t most_bytes = SIZE_MAX;

  template <kind K, class T, class Op>
  static constexpr bool has() {
    if constexpr (K == kind::allreduce) return std::same_as<T, detail::reduce::wire_element_t<Op, T>>;
    else return false;
  }
  static bool is_to_be_had(const transport& base_transport) {
    return base_transport.size() <= most_ranks && base_transport.kernels_reach_all();
  }
  static const char* refusal(const collective_args&, int /*rank*/, int size) {
    return size <= most_ranks ? nullptr : "one kernel combines at most 1024 vectors: name an algorithm";
  }
  template <kind K, class T, class Op>
  static constexpr auto start() {
    return [](void* self, const collective_args& args, void* ticket) {
      detail::cuda::start_together<transport>(self, args, ticket, &begin<T, Op>);
    };
  }

 private:
  static constexpr int most_ranks = 1024;
  template <class T, class Op>
  static void begin(cudaStream_t stream, const collective_args& args, const std::byte* const* in, std::byte* const* out,
                    int rank, int size) {
    detail::cuda::fused_allreduce<T, Op>::begin(stream, *static_cast<const Op*>(args.compute.op), in, out, args.count,
                                                size, rank);
  }
};

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions on a device as calls of their own: several vectors into one, or into several. Programs include reduce.cuh,
// which has the kernels as well.
#pragma once

#include <kolo/cuda/executor.hpp>
#include <kolo/view/device.hpp>

#include <initializer_list>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::cuda {
/// A source of a reduction; the destination determines T.
template <class T>
using operand = device_span<const std::type_identity_t<T>>;

template <class T>
std::vector<source> sources_of(std::size_t count, std::initializer_list<operand<T>> views) {
  if (views.size() == 0) throw error{errc::invalid_argument, "kolo::cuda::combine needs at least one source"};
  std::vector<source> from;
  for (const auto& v : views) {
    if (v.size() != count) throw error{errc::invalid_argument, "kolo::cuda::combine: the views have different lengths"};
    from.push_back({view::bytes_at(v.data()), false});
  }
  return from;
}
}  // namespace kolo::inline KOLO_ABI::detail::cuda

namespace kolo::inline KOLO_ABI::cuda {

/// combine(stream, dst, {a, b, c}, op [, finish_size])       dst[i] = (a[i] op b[i]) op c[i]
/// combine(stream, {x, y}, {a, b, c}, op [, finish_size])    x[i] = y[i] = (a[i] op b[i]) op c[i]
///
/// In one pass over memory, after the work on the stream; with `finish_size` p > 0 followed by the operator's `finish`,
/// such as a division by p. A destination may be one of the sources; else it must not overlap any source or other
/// destination.
///
/// Order   the order of the sources. Elements of 16 bits are combined in float and rounded once.
/// Bits    those of the host for the same order (reduce/kernel.hpp), except for the bits of a NaN that addition,
///         multiplication or division makes. They need IEEE arithmetic: not with -use_fast_math. kolo's operators never
///         add a product to a sum, so nothing can be contracted; where an operator of your own does, nvcc contracts it
///         without -fmad=false, and so do some compilers of the host where they may use fma (reduce/loops.hpp).
/// Cost    each source is read once, each destination written once; 16 bytes at a time where all addresses are
///         multiples of 16.
/// Errors  invalid_argument: lengths that differ, no source, no destination, or more than 1024 of either.
template <Element T, class Op>
void combine(cudaStream_t stream, device_span<T> dst, std::initializer_list<detail::cuda::operand<T>> sources,
             const Op& op, int finish_size = 0) {
  operator_check<Op, T>();
  const auto from = detail::cuda::sources_of<T>(dst.size(), sources);
  detail::cuda::functions_of<T, Op>::combine(stream, &op, detail::view::bytes_at(dst.data()), from.data(),
                                             int(from.size()), dst.size(), finish_size);
}
template <Element T, class Op>
void combine(cudaStream_t stream, std::initializer_list<device_span<T>> destinations,
             std::initializer_list<detail::cuda::operand<T>> sources, const Op& op, int finish_size = 0) {
  operator_check<Op, T>();
  if (destinations.size() == 0)
    throw error{errc::invalid_argument, "kolo::cuda::combine needs at least one destination"};
  const std::size_t count = destinations.begin()->size();
  std::vector<std::byte*> to;
  for (const auto& v : destinations) {
    if (v.size() != count) throw error{errc::invalid_argument, "kolo::cuda::combine: the views have different lengths"};
    to.push_back(detail::view::bytes_at(v.data()));
  }
  const auto from = detail::cuda::sources_of<T>(count, sources);
  detail::cuda::functions_of<T, Op>::combine_to_all(
      stream, op, {to.data(), int(to.size()), from.data(), int(from.size()), count, finish_size});
}

}  // namespace kolo::inline KOLO_ABI::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions on a device, with the operators and elements of the host: what device communicators are made of, and a call of its own.
#pragma once

#include <kolo/cuda/hands.hpp>
#include <kolo/cuda/launch.cuh>
#include <kolo/view/device.hpp>

#include <initializer_list>
#include <vector>

namespace kolo::inline v0::cuda {

/// combine(stream, dst, {a, b, c}, op [, finish_size]): dst[i] = (a[i] op b[i]) op c[i] in one pass over memory, behind what is on the stream; with
/// `finish_size` p > 0 also what the operator does at the end, such as to divide by p. `dst` may be one of the sources, and must otherwise not overlap any.
///
/// Order   the order of the sources. Elements of 16 bits are combined in float and rounded once.
/// Bits    those that the host gets from the same order (reduce/kernel.hpp), but for the bits of a NaN that addition, multiplication or division makes.
///         They rest on IEEE arithmetic: not under -use_fast_math. kolo's operators never put a product into a sum, so nothing can be contracted;
///         an operator of your own that does is contracted by nvcc without -fmad=false, and by the host's compiler where it may use fma.
/// Errors  invalid_argument: lengths that differ, no source, or more than 1024.
template <Element T, class Op>
void combine(cudaStream_t stream, device_span<T> dst, std::initializer_list<device_span<const std::type_identity_t<T>>> sources, const Op& op,
             int finish_size = 0) {
  operator_check<Op, T>();
  if (sources.size() == 0) throw error{errc::invalid_argument, "kolo::cuda::combine needs at least one source"};
  std::vector<source> from;
  for (const auto& s : sources) {
    if (s.size() != dst.size()) throw error{errc::invalid_argument, "kolo::cuda::combine: the views have different lengths"};
    from.push_back({kolo::detail::bytes_at(s.data()), false});
  }
  detail::functions_of<T, Op>::combine(stream, &op, kolo::detail::bytes_at(dst.data()), from.data(), static_cast<int>(from.size()), dst.size(), finish_size);
}

}  // namespace kolo::inline v0::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gather: the root gets the parts of all ranks, one after the other.
#pragma once

#include <kolo/collective/rooted_parts.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {
using gather = rooted_parts<kind::gather>;
}

/// gather(comm, in, out, root [, algorithm] [, options])            equal parts of n elements
/// gather(comm, in, out, counts, root [, algorithm] [, options])    ragged: rank r gives counts[r] elements
///
/// Before  rank r holds its part; n, or counts, are equal on all ranks. `out` matters on the root only and may be empty
///         elsewhere.
/// After   the root has in `out` the parts of ranks 0, 1, ... p-1. There `in` may be its part of `out`.
/// Cost    the algorithm's; at least all other ranks' parts received by the root.
/// Order   nothing is combined.
/// Errors  invalid_argument: lengths that do not fit, another overlap, a root that is not a rank. Any: kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::gather> gather{};
inline constexpr detail::collective::started<detail::collective::gather> start_gather{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::gather> plan_gather{};   ///< gives a plan

}  // namespace kolo::inline KOLO_ABI

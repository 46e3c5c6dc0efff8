// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scatter: every rank gets its part of the root's elements.
#pragma once

#include <kolo/collective/rooted_parts.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {
using scatter = rooted_parts<kind::scatter>;
}

/// scatter(comm, in, out, root [, algorithm] [, options])            equal parts of n elements
/// scatter(comm, in, out, counts, root [, algorithm] [, options])    ragged: rank r gets counts[r] elements
///
/// Before  the root holds the parts of ranks 0, 1, ... p-1 in `in`, which matters on the root only and may be empty
///         elsewhere. n, or counts, are equal on all ranks.
/// After   rank r has part r in `out`. On the root `out` may be its part of `in`.
/// Cost    the algorithm's; at least all other ranks' parts sent by the root.
/// Order   nothing is combined.
/// Errors  invalid_argument: lengths that do not fit, another overlap, a root that is not a rank. Any: kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::scatter> scatter{};
inline constexpr detail::collective::started<detail::collective::scatter> start_scatter{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::scatter> plan_scatter{};   ///< gives a plan

}  // namespace kolo::inline KOLO_ABI

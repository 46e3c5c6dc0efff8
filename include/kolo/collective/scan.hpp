// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scan and exclusive_scan: every rank gets the combination of its own elements and those of the ranks before it.
#pragma once

#include <kolo/collective/entry.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

template <kind Kind>
struct scan_of_kind {
  static constexpr auto K = Kind;

  template <class C, ViewLike In, ViewLike Out, AnyOperator Op, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Op& op, A& algorithm) {
    using T = view_element_t<In>;
    static_assert(!Finishes<std::remove_cv_t<Op>, detail::reduce::accumulator_t<T, std::remove_cv_t<Op>>>,
                  "kolo: a scan takes no operator with finish, such as average: use kolo::sum");
    return make_call<K>(kolo::as_view(in), kolo::as_view(out), op, algorithm, [&](auto& c) {
      require_equal(comm, name(K), "in has ", c.in.size(), " elements, and out has ", c.out.size());
      complete<K, T>(comm, c, c.in.size(), c.in.size());
      const bool in_place = K == kind::scan && same(c.args.in, c.args.out);
      require(comm, K, in_place || are_disjoint(c.args.in, c.args.out), "in and out overlap");
    });
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(sizeof...(Wrong) == 0,
                  "kolo::scan and kolo::exclusive_scan take (comm, in, out, op), then an algorithm, then options");
    return {};
  }
};

}  // namespace detail::collective

/// scan(comm, in, out, op [, algorithm] [, options])
///
/// Before  every rank holds n elements, n equal on all ranks.
/// After   rank r has out[i] = in_0[i] op ... op in_r[i]. `in` and `out` may be the same.
/// Cost    the algorithm's.
/// Order   the order of the ranks; the grouping is the algorithm's.
/// Errors  invalid_argument: different lengths, partial overlap. Any: kolo::errc. A scan has no average.
inline constexpr detail::collective::blocking<detail::collective::scan_of_kind<kind::scan>> scan{};
inline constexpr detail::collective::started<detail::collective::scan_of_kind<kind::scan>>
    start_scan{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::scan_of_kind<kind::scan>>
    plan_scan{};  ///< gives a plan

/// exclusive_scan(comm, in, out, op [, algorithm] [, options])
///
/// As `scan`, but rank r has out[i] = in_0[i] op ... op in_(r-1)[i]; rank 0's `out` is left as it is. `in` and `out`
/// must not overlap.
inline constexpr detail::collective::blocking<detail::collective::scan_of_kind<kind::exclusive_scan>> exclusive_scan{};
inline constexpr detail::collective::started<detail::collective::scan_of_kind<kind::exclusive_scan>>
    start_exclusive_scan{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::scan_of_kind<kind::exclusive_scan>>
    plan_exclusive_scan{};  ///< gives a plan

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// allreduce: every rank gets the combination of all ranks' elements.
#pragma once

#include <kolo/collective/entry.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

struct allreduce {
  static constexpr auto K = kind::allreduce;

  template <class C, ViewLike In, ViewLike Out, AnyOperator Op, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Op& op, A& algorithm) {
    using T = view_element_t<In>;
    if constexpr (0 < detail::reduce::wire_group<detail::reduce::wire_element_t<Op, T>>)
      return scaled_call<std::remove_const_t<Op>, std::remove_const_t<A>>::make(comm, kolo::as_view(in),
                                                                                kolo::as_view(out), op, algorithm);
    else
      return make_call<K>(kolo::as_view(in), kolo::as_view(out), operator_of_call<A, T>(op), algorithm, [&](auto& c) {
        require_equal(comm, name(K), "in has ", c.in.size(), " elements, and out has ", c.out.size());
        complete<K, T>(comm, c, c.in.size(), c.in.size());
        require_same_or_disjoint(comm, K, c.args.in, c.args.out);
      });
  }
  static auto make(auto& comm, ViewLike auto& x, AnyOperator auto& op, AnyAlgorithm auto& algorithm) {
    return make(comm, x, x, op, algorithm);
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(sizeof...(Wrong) == 0,
                  "kolo::allreduce takes (comm, x, op) or (comm, in, out, op), then an algorithm, then options");
    return {};
  }
};

}  // namespace detail::collective

/// allreduce(comm, x, op [, algorithm] [, options])          in place
/// allreduce(comm, in, out, op [, algorithm] [, options])    out of place
///
/// Before  every rank holds n elements, n equal on all ranks.
/// After   every rank has out[i] = in_0[i] op in_1[i] op ... op in_(p-1)[i]: the same bits on every rank.
/// Cost    the algorithm's; at least 2 (p-1)/p n elements sent and received by each rank.
/// Order   the order of the ranks if `op` does not commute, else the algorithm's; fixed for a number of ranks. With
///         `ordered<order::tree<L>>(automatic{})` the tree's, also for another number of ranks; an average is then
///         divided by L.
/// Errors  invalid_argument: different lengths, partial overlap, ranks that do not divide the leaves of a tree. Any:
///         kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::allreduce> allreduce{};
inline constexpr detail::collective::started<detail::collective::allreduce> start_allreduce{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::allreduce> plan_allreduce{};   ///< gives a plan

}  // namespace kolo::inline KOLO_ABI

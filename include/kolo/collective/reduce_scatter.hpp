// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// reduce_scatter: every rank gets its block of the combination of all ranks' elements.
#pragma once

#include <kolo/collective/entry.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

/// An output with an epilogue, which runs on each part of it while it is in the cache.
template <View V>
struct followed : V {
  const execute::epilogue* epilogue;
};
template <class V>
followed(const V&, const execute::epilogue*) -> followed<V>;

struct reduce_scatter {
  static constexpr auto K = kind::reduce_scatter;

  template <class C, ViewLike In, ViewLike Out, AnyOperator Op, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Op& op, A& algorithm) {
    using T = view_element_t<In>;
    return make_call<K>(kolo::as_view(in), kolo::as_view(out), op, algorithm, [&](auto& c) {
      const auto mine = block(c.in.size(), comm.size(), comm.rank());
      require_equal(comm, name(K), "out has ", c.out.size(),
                    " elements, and this rank's block of in, kolo::block(n, p, r), has ", mine.count);
      complete<K, T>(comm, c, c.in.size(), c.in.size());
      if constexpr (requires { c.out.epilogue; }) {
        static_assert(space_of<typename C::transport_type> == memory_space::host || sizeof(c) == 0,
                      "kolo: an epilogue runs on the host: it cannot be used with a stream");
        c.args.epilogue = c.out.epilogue;
      }
      require_own_part_or_disjoint<K>(comm, c.args, mine.first);
    });
  }
  template <class C, ViewLike In, ViewLike Out, CountsLike Counts, AnyOperator Op, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Counts& counts, Op& op, A& algorithm) {
    return make_call<K, counts_of_parts>(kolo::as_view(in), kolo::as_view(out), op, algorithm, [&](auto& c) {
      complete_ragged<K, view_element_t<In>>(comm, c, counts, "out has ", c.out.size(), "in has ", c.in.size());
    });
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(sizeof...(Wrong) == 0,
                  "kolo::reduce_scatter takes (comm, in, out, op) or (comm, in, out, counts, op), then an algorithm, "
                  "then options");
    return {};
  }
};

}  // namespace detail::collective

/// reduce_scatter(comm, in, out, op [, algorithm] [, options])            rank r gets kolo::block(n, p, r)
/// reduce_scatter(comm, in, out, counts, op [, algorithm] [, options])    ragged: rank r gets counts[r] elements
///
/// Before  every rank holds n elements; n, and counts, are equal on all ranks.
/// After   rank r has in `out` block r of in_0 op in_1 op ... op in_(p-1).
/// Cost    the algorithm's; at least (p-1)/p n elements sent and received by each rank.
/// Order   the order of the ranks if `op` does not commute, else the algorithm's; fixed for a number of ranks.
/// Errors  invalid_argument: lengths that do not fit, `out` overlapping `in` elsewhere than at this rank's block. Any:
///         kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::reduce_scatter> reduce_scatter{};
inline constexpr detail::collective::started<detail::collective::reduce_scatter>
    start_reduce_scatter{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::reduce_scatter>
    plan_reduce_scatter{};  ///< gives a plan

}  // namespace kolo::inline KOLO_ABI

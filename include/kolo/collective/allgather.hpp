// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// allgather: every rank gets the parts of all ranks, one after the other.
#pragma once

#include <kolo/collective/entry.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

struct allgather {
  static constexpr auto K = kind::allgather;

  template <class C, ViewLike In, ViewLike Out, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, A& algorithm) {
    return make_call<K>(kolo::as_view(in), kolo::as_view(out), execute::none{}, algorithm, [&](auto& c) {
      const auto n = c.in.size();
      require_equal(comm, name(K), "out has ", c.out.size(), " elements, and the inputs of all ranks have ",
                    of_all_ranks(comm, K, n));
      complete<K, view_element_t<In>>(comm, c, n, n);
      require_own_part_or_disjoint<K>(comm, c.args, std::size_t(comm.rank()) * n);
    });
  }
  template <class C, ViewLike In, ViewLike Out, CountsLike Counts, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Counts& counts, A& algorithm) {
    return make_call<K, counts_of_parts>(
        kolo::as_view(in), kolo::as_view(out), execute::none{}, algorithm, [&](auto& c) {
          complete_ragged<K, view_element_t<In>>(comm, c, counts, "in has ", c.in.size(), "out has ", c.out.size());
        });
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(sizeof...(Wrong) == 0,
                  "kolo::allgather takes (comm, in, out) or (comm, in, out, counts), then an algorithm, then options");
    return {};
  }
};

}  // namespace detail::collective

/// allgather(comm, in, out [, algorithm] [, options])            equal parts of n elements
/// allgather(comm, in, out, counts [, algorithm] [, options])    ragged: rank r gives counts[r] elements
///
/// Before  rank r holds its part; n, or counts, are equal on all ranks.
/// After   every rank has in `out` the parts of ranks 0, 1, ... p-1. `in` may be this rank's part of `out`.
/// Cost    the algorithm's; at least all other ranks' parts received by each rank.
/// Order   nothing is combined.
/// Errors  invalid_argument: lengths that do not fit, another overlap. Any: kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::allgather> allgather{};
inline constexpr detail::collective::started<detail::collective::allgather> start_allgather{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::allgather> plan_allgather{};   ///< gives a plan

}  // namespace kolo::inline KOLO_ABI

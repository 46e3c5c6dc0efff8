// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scatter: every rank ends with its part of what the root holds.
#pragma once

#include <kolo/collective/entry.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

struct scatter {
  static constexpr auto K = kind::scatter;

  template <class C, ViewLike In, ViewLike Out, RootLike Root, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Root& root_number, A& algorithm) {
    const int root = root_from(comm, K, root_number);
    return make_call<K>(as_view(in), as_view(out), execute::none{}, algorithm, [&](auto& c) {
      const auto n = c.out.size();
      if (comm.rank() == root)
        require_equal(comm, name(K), "on the root in has ", c.in.size(),
                      " elements, and the outputs of all ranks have ", n * static_cast<std::size_t>(comm.size()));
      complete<K, view_element_t<In>>(comm, c, n, n, root);
      require_own_part_or_apart<K>(comm, c.args, static_cast<std::size_t>(comm.rank()) * n, root);
    });
  }
  template <class C, ViewLike In, ViewLike Out, CountsLike Counts, RootLike Root, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Counts& counts, Root& root_number, A& algorithm) {
    const int root = root_from(comm, K, root_number);
    return make_call<K, counts_of_parts>(as_view(in), as_view(out), execute::none{}, algorithm, [&](auto& c) {
      c.send_counts = counts_from(comm, K, counts);
      const auto total = check_counts(comm, K, c.send_counts);
      require_equal(comm, name(K), "out has ", c.out.size(), " elements, and this rank's count is ",
                    c.send_counts[static_cast<std::size_t>(comm.rank())]);
      if (comm.rank() == root)
        require_equal(comm, name(K), "on the root in has ", c.in.size(), " elements, and the counts add up to ", total);
      complete<K, view_element_t<In>>(comm, c, 0, total, root);
      require_own_part_or_apart<K>(comm, c.args, first_of(c.send_counts, comm.rank()), root);
    });
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(
        sizeof...(Wrong) == 0,
        "kolo::scatter takes (comm, in, out, root) or (comm, in, out, counts, root), then an algorithm, then options");
    return {};
  }
};

}  // namespace detail::collective

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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gather: the root ends with what all ranks hold, one after the other.
#pragma once

#include <kolo/collective/entry.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

struct gather {
  static constexpr auto K = kind::gather;

  template <class C, ViewLike In, ViewLike Out, RootLike Root, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Root& root_number, A& algorithm) {
    const int root = root_from(comm, K, root_number);
    return make_call<K>(as_view(in), as_view(out), execute::none{}, algorithm, [&](auto& c) {
      const auto n = c.in.size();
      if (comm.rank() == root)
        require_equal(comm, name(K), "on the root out has ", c.out.size(),
                      " elements, and the inputs of all ranks have ", n * static_cast<std::size_t>(comm.size()));
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
      require_equal(comm, name(K), "in has ", c.in.size(), " elements, and this rank's count is ",
                    c.send_counts[static_cast<std::size_t>(comm.rank())]);
      if (comm.rank() == root)
        require_equal(comm, name(K), "on the root out has ", c.out.size(), " elements, and the counts add up to ",
                      total);
      complete<K, view_element_t<In>>(comm, c, 0, total, root);
      require_own_part_or_apart<K>(comm, c.args, first_of(c.send_counts, comm.rank()), root);
    });
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(
        sizeof...(Wrong) == 0,
        "kolo::gather takes (comm, in, out, root) or (comm, in, out, counts, root), then an algorithm, then options");
    return {};
  }
};

}  // namespace detail::collective

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

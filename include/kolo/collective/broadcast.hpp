// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// broadcast: every rank gets the root's elements.
#pragma once

#include <kolo/collective/entry.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

struct broadcast {
  static constexpr auto K = kind::broadcast;

  template <class C, ViewLike X, RootLike Root, AnyAlgorithm A>
  static auto make(C& comm, X& x, Root& root, A& algorithm) {
    return make_call<K>(kolo::as_view(x), execute::none{}, execute::none{}, algorithm, [&](auto& c) {
      complete<K, view_element_t<X>>(comm, c, c.in.size(), c.in.size(), rank_from(comm, K, root));
      c.args.out = c.args.in;
    });
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(sizeof...(Wrong) == 0, "kolo::broadcast takes (comm, x, root), then an algorithm, then options");
    return {};
  }
};

}  // namespace detail::collective

/// broadcast(comm, x, root [, algorithm] [, options])
///
/// Before  the root holds n elements; n equal on all ranks.
/// After   every rank has them in x.
/// Cost    the algorithm's; at least n elements received by each rank but the root.
/// Order   nothing is combined.
/// Errors  invalid_argument: a root that is not a rank. Any: kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::broadcast> broadcast{};
inline constexpr detail::collective::started<detail::collective::broadcast> start_broadcast{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::broadcast> plan_broadcast{};   ///< gives a plan

}  // namespace kolo::inline KOLO_ABI

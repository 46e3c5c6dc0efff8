// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// reduce: the root gets the combination of all ranks' elements.
#pragma once

#include <kolo/collective/entry.hpp>
#include <kolo/schedule/binomial.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

struct reduce {
  static constexpr auto K = kind::reduce;

  template <class C, ViewLike In, ViewLike Out, AnyOperator Op, RootLike Root, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Op& op, Root& root_number, A& algorithm) {
    using T = view_element_t<In>;
    const int root = rank_from(comm, K, root_number);
    const auto fill = [&](auto& c) {
      if (comm.rank() == root)
        require_equal(comm, name(K), "on the root in has ", c.in.size(), " elements, and out has ", c.out.size());
      complete<K, T>(comm, c, c.in.size(), c.in.size(), root);
      require(comm, K, comm.rank() != root || same(c.args.in, c.args.out) || are_disjoint(c.args.in, c.args.out),
              "in and out overlap without being the same");
    };
    constexpr bool is_rotated = is_commutative<std::remove_cv_t<Op>> &&
                                (!schedule::keeps_one_tree<std::remove_cv_t<A>> || is_exact<std::remove_cv_t<Op>, T>);
    if constexpr (is_rotated || schedule::AnyRoot<schedule_type<K, A>>) {
      return make_call<K>(kolo::as_view(in), kolo::as_view(out), operator_of_call<A, T>(op), algorithm, fill);
    } else {  // ranks must not be rotated: rank 0 gets the result and sends it to the root
      using S = std::conditional_t<schedule::Automatic<A>, binomial::reduce, schedule_type<K, A>>;
      check_one_tree<K, T, std::remove_cv_t<Op>, std::remove_cv_t<A>>();
      if constexpr (constexpr int leaves = schedule::leaves_of<std::remove_cv_t<A>>; leaves > 0)
        require_leaves(comm, K, leaves);
      return make_call<K>(kolo::as_view(in), kolo::as_view(out), operator_of_call<A, T>(op),
                          forwarded<S>{root, ordered_schedule(schedule_or_automatic<K>(algorithm))}, fill);
    }
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(sizeof...(Wrong) == 0,
                  "kolo::reduce takes (comm, in, out, op, root), then an algorithm, then options");
    return {};
  }

 private:
  static binomial::reduce ordered_schedule(schedule::Automatic auto) { return {}; }
  template <Schedule S>
  static S ordered_schedule(const S& s) {
    return s;
  }
};

}  // namespace detail::collective

/// reduce(comm, in, out, op, root [, algorithm] [, options])
///
/// Before  every rank holds n elements, n equal on all ranks; `out` matters on the root only and may be empty
///         elsewhere.
/// After   the root has out[i] = in_0[i] op in_1[i] op ... op in_(p-1)[i].
/// Cost    the algorithm's; one round more if `op` does not commute and the root is not rank 0.
/// Order   the order of the ranks if `op` does not commute, else the algorithm's; fixed for a number of ranks and a
///         root. With an order that is fixed for any count, or by a tree, the root does not matter, and the cost is
///         that of an operator that does not commute.
/// Errors  invalid_argument: different lengths, partial overlap, a root that is not a rank. Any: kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::reduce> reduce{};
inline constexpr detail::collective::started<detail::collective::reduce> start_reduce{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::reduce> plan_reduce{};   ///< gives a plan

}  // namespace kolo::inline KOLO_ABI

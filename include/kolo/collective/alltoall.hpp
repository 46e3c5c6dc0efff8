// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// alltoall: every rank sends a different part to every rank.
#pragma once

#include <kolo/collective/entry.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

struct alltoall {
  static constexpr auto K = kind::alltoall;

  template <class C, ViewLike In, ViewLike Out, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, A& algorithm) {
    return make_call<K>(kolo::as_view(in), kolo::as_view(out), execute::none{}, algorithm, [&](auto& c) {
      const auto n = c.in.size(), p = std::size_t(comm.size());
      require_equal(comm, name(K), "in has ", n, " elements, and out has ", c.out.size());
      require(comm, name(K), n % p == 0, "parts of different lengths need counts: in has ", n,
              " elements, which is not a multiple of the number of ranks, ", p);
      complete<K, view_element_t<In>>(comm, c, n / p, n);
      require(comm, K, are_disjoint(c.args.in, c.args.out), "in and out overlap");
    });
  }
  template <class C, ViewLike In, ViewLike Out, CountsLike Send, CountsLike Receive, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Send& send_counts, Receive& receive_counts, A& algorithm) {
    return make_call<K, counts_of_parts>(
        kolo::as_view(in), kolo::as_view(out), execute::none{}, algorithm, [&](auto& c) {
          c.send_counts = counts_from(comm, K, send_counts);
          c.receive_counts = counts_from(comm, K, receive_counts);
          require_equal(comm, name(K), "in has ", c.in.size(), " elements, and the send counts add up to ",
                        check_counts(comm, K, c.send_counts));
          require_equal(comm, name(K), "out has ", c.out.size(), " elements, and the receive counts add up to ",
                        check_counts(comm, K, c.receive_counts));
          const auto me = std::size_t(comm.rank());
          require_equal(comm, name(K), "this rank sends itself ", c.send_counts[me],
                        " elements and receives from itself ", c.receive_counts[me]);
          complete<K, view_element_t<In>>(comm, c, 0, 0);
          require(
              comm, K, c.args.schedule.scratch == 0,
              "this algorithm takes equal parts only: it forwards parts through ranks that do not know their lengths");
          require(comm, K, are_disjoint(c.args.in, c.args.out), "in and out overlap");
        });
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(sizeof...(Wrong) == 0,
                  "kolo::alltoall takes (comm, in, out) or (comm, in, out, send_counts, receive_counts), then an "
                  "algorithm, then options");
    return {};
  }
};

}  // namespace detail::collective

/// alltoall(comm, in, out [, algorithm] [, options])                                 equal parts of n/p elements
/// alltoall(comm, in, out, send_counts, receive_counts [, algorithm] [, options])    ragged
///
/// Before  rank r holds in `in` the parts for ranks 0, 1, ... p-1; the part that r sends to s is as long as s expects.
/// After   rank r has in `out` the parts that ranks 0, 1, ... p-1 had for it.
/// Cost    the algorithm's; at least all parts but one's own sent and received by each rank.
/// Order   nothing is combined.
/// Errors  invalid_argument: lengths that do not fit, any overlap, ragged parts for an algorithm with scratch. Any:
///         kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::alltoall> alltoall{};
inline constexpr detail::collective::started<detail::collective::alltoall> start_alltoall{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::alltoall> plan_alltoall{};   ///< gives a plan

}  // namespace kolo::inline KOLO_ABI

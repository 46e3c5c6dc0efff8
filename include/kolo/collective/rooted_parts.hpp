// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The common part of gather and scatter: the root has the parts of all ranks, and every rank its own.
#pragma once

#include <kolo/collective/entry.hpp>

namespace kolo::inline KOLO_ABI::detail::collective {

template <kind Kind>
struct rooted_parts {
  static constexpr auto K = Kind;
  static constexpr bool gathers = K == kind::gather;

  /// The lengths of the two views: this rank's own part, and all parts, which matters on the root.
  static std::size_t own(const auto& c) { return gathers ? c.in.size() : c.out.size(); }
  static std::size_t all(const auto& c) { return gathers ? c.out.size() : c.in.size(); }
  static constexpr auto all_has = gathers ? "on the root out has " : "on the root in has ";

  template <class C, ViewLike In, ViewLike Out, RootLike Root, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Root& root_number, A& algorithm) {
    const int root = rank_from(comm, K, root_number);
    return make_call<K>(kolo::as_view(in), kolo::as_view(out), execute::none{}, algorithm, [&](auto& c) {
      const auto n = own(c);
      if (comm.rank() == root)
        require_equal(
            comm, name(K), all_has, all(c),
            gathers ? " elements, and the inputs of all ranks have " : " elements, and the outputs of all ranks have ",
            of_all_ranks(comm, K, n));
      complete<K, view_element_t<In>>(comm, c, n, n, root);
      require_own_part_or_disjoint<K>(comm, c.args, std::size_t(comm.rank()) * n, root);
    });
  }
  template <class C, ViewLike In, ViewLike Out, CountsLike Counts, RootLike Root, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Counts& counts, Root& root_number, A& algorithm) {
    const int root = rank_from(comm, K, root_number);
    return make_call<K, counts_of_parts>(
        kolo::as_view(in), kolo::as_view(out), execute::none{}, algorithm, [&](auto& c) {
          complete_ragged<K, view_element_t<In>>(comm, c, counts, gathers ? "in has " : "out has ", own(c), all_has,
                                                 all(c), root);
        });
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(
        !gathers || sizeof...(Wrong) == 0,
        "kolo::gather takes (comm, in, out, root) or (comm, in, out, counts, root), then an algorithm, then options");
    static_assert(
        gathers || sizeof...(Wrong) == 0,
        "kolo::scatter takes (comm, in, out, root) or (comm, in, out, counts, root), then an algorithm, then options");
    return {};
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::collective

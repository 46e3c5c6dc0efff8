// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithm of a call that names none. select/choose.hpp makes the choice.
#pragma once

#include <kolo/core/kind.hpp>

#include <concepts>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// The order in which a call may combine its operands, for operators whose rounding depends on it.
struct order {
  enum value {
    /// Any order. The choice may depend on times measured in this run, so the last bits may differ in the next run. It
    /// may be the transport's own collective; MPI does not promise the same bits on every rank. Kolo's algorithms give
    /// the same bits on every rank.
    any,
    fixed_for_size,  ///< a call among the same number of ranks gives the same bits in every run
    /// The bits of an element depend only on its operands and the number of ranks; not on the number of elements, the
    /// element's index, tables, transport, nodes, host or root. See `automatic_for_any_count`.
    fixed_for_any_count,
    by_tree  ///< the order that `tree<L>` defines
  };
  /// One balanced binary tree over L leaves, a power of two. Its bits are the same for 1, 2, 4, ... L ranks. See
  /// `automatic_by_tree`.
  template <int L>
  struct tree {};

  value is = fixed_for_size;
  constexpr order(value v) : is{v} {}  // NOLINT: order::any is an order
  constexpr operator value() const { return is; }
};

/// The algorithm of a call that names none. Of all candidates (select/candidates.hpp) that the operator, the number of
/// ranks and the counts allow, it is the one with the least predicted time. The prediction depends on the collective,
/// the number of ranks, the bytes on the wire (rounded down to one of four lengths per octave) and a table of
/// constants, `kolo::tuning`: the one that the program set (`kolo::use_tuning`), else the transport's own, else the
/// default (select/default_tuning.hpp). All of these are the same on every rank and in every run, so all ranks make the
/// same choice without communication. `kolo::explain` reports the reasons.
///
/// Where the transport has collectives of its own (MPI's, see `native`), they are candidates too if three conditions
/// hold: the table has times for them; all ranks know that the vector has at most 2^31 - 1 bytes (never in an alltoall
/// with counts); and the bits are unaffected: nothing is combined, integers are combined by an operator of kolo's, the
/// transport combines in the order of the ranks, or any order is allowed. They do not detect ranks that call different
/// collectives, and they hold the buffers after a failure, so they are chosen only where they save at least a twentieth
/// of the time. A program to which that matters more sets a table without such times.
///
/// NCCL's collectives come first, without times, in NCCL's own order and at any length, unless the program set a table.
/// They give the same bits on every rank, but not always in the next run, for example where a switch adds.
/// `ordered<order::fixed_for_size>(automatic{})` takes only algorithms that do.
///
/// Where ranks form nodes (`routed`), the default table of shared memory predicts the transfers inside a node, and the
/// chosen table those between nodes. An allreduce, reduce_scatter or allgather may then be `two_level<>`, on all lanes
/// or on one, if ranks are numbered node by node. The choice depends on the nodes too, and so do the bits. Where a
/// fitted table decides, it is for all links together, and `two_level<>` is a candidate if that fit measured it
/// (`kolo::fit(comm, nodes)`).
///
/// A table that was fitted in this run (`kolo::fit`) decides only what changes no bit: where nothing is combined, and
/// among candidates that combine in the same order. It decides everything with `ordered<order::any>(automatic{})`, and
/// where the operator is exact on the elements (`is_exact`), since then all orders give the same bits.
struct automatic {
  static constexpr auto allowed = order::fixed_for_size;
};
namespace detail::schedule {
struct automatic_in_any_order {
  static constexpr auto allowed = order::any;
};
struct automatic_in_fixed_order {  ///< a fixed order even where the transport's own collectives come first
  static constexpr auto allowed = order::fixed_for_size;
};

/// `ordered<order::fixed_for_any_count>(automatic{})`: chooses among schedules that combine every element by the same
/// tree and round it at the same places (select/one_tree.hpp), which `same_bits` in schedule/same_bits.hpp proves. The
/// tree depends on the collective, the number of ranks and whether elements travel as another type. `explain` reports
/// the cost. If the operator is exact on the elements, every tree gives the same bits and the choice is free. A reduce
/// runs to rank 0, which sends the result to the root. A reduce_scatter cannot have a `wire` type, since an owner does
/// not round its own operand.
struct automatic_for_any_count {
  static constexpr auto allowed = order::fixed_for_any_count;
};

/// `ordered<order::tree<8>>(automatic{})`, for an allreduce or a reduce: every rank contributes the result of a subtree
/// of 8 / p leaves, combined neighbours first; rank r that of the leaves r * 8 / p ... (r + 1) * 8 / p - 1. So p must
/// divide 8 (else `invalid_argument`). An average divides once, by 8. A `wire` type, or an average of 16-bit elements,
/// is not allowed, since partial results would be rounded between ranks.
template <int L>
struct automatic_by_tree {
  static_assert(L >= 1 && (L & (L - 1)) == 0, "kolo: L of order::tree<L> must be a power of two");
  static constexpr auto allowed = order::by_tree;
};

/// The number of leaves that an algorithm requires; 0: none.
template <class A>
inline constexpr int leaves_of = 0;
template <int L>
inline constexpr int leaves_of<automatic_by_tree<L>> = L;

template <class A>
concept Automatic =
    std::same_as<std::remove_cv_t<A>, automatic> || std::same_as<std::remove_cv_t<A>, automatic_in_any_order> ||
    std::same_as<std::remove_cv_t<A>, automatic_in_fixed_order> ||
    std::same_as<std::remove_cv_t<A>, automatic_for_any_count> || 0 < leaves_of<std::remove_cv_t<A>>;

/// Whether a call must keep to one tree.
template <class A>
inline constexpr bool keeps_one_tree = false;
template <Automatic A>
inline constexpr bool keeps_one_tree<A> = A::allowed == order::fixed_for_any_count || A::allowed == order::by_tree;
}  // namespace detail::schedule

/// `kolo::allreduce(comm, x, kolo::sum, ordered<order::any>(automatic{}))`. Affects the automatic choice only: a named
/// algorithm has one order for each number of ranks, and is returned unchanged.
template <order::value Allowed, class A>
constexpr auto ordered(const A& algorithm) {
  static_assert(Allowed != order::by_tree,
                "kolo: the number of leaves is missing: ordered<order::tree<8>>(automatic{})");
  if constexpr (!detail::schedule::Automatic<A>) return algorithm;
  else if constexpr (Allowed == order::any) return detail::schedule::automatic_in_any_order{};
  else if constexpr (Allowed == order::fixed_for_any_count) return detail::schedule::automatic_for_any_count{};
  else return detail::schedule::automatic_in_fixed_order{};
}
/// `ordered<order::tree<8>>(automatic{})`.
template <class Tree, class A>
constexpr auto ordered(const A&) {
  static_assert(detail::schedule::Automatic<A>,
                "kolo: only automatic takes order::tree: ordered<order::tree<8>>(automatic{})");
  return []<int L>(order::tree<L>) { return detail::schedule::automatic_by_tree<L>{}; }(Tree{});
}

}  // namespace kolo::inline KOLO_ABI

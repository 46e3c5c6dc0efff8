// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithm of a call that names none; how the library chooses it: select/choose.hpp.
#pragma once

#include <kolo/core/kind.hpp>

#include <concepts>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// In which order a call may combine, where rounding makes that visible.
struct order {
  enum value {
    /// Any: also one that was chosen by what was measured in this run, so that the next run may differ in the last
    /// bits; and that of the transport's own collective, where MPI does not promise the same bits on every rank. Kolo's
    /// algorithms give the same bits on every rank.
    any,
    fixed_for_size,  ///< the same in every run of a call with this many ranks: the same bits
    /// The bits of an element depend on the operands and the number of ranks, and on nothing else: not on how many
    /// elements a call has, where this one stands among them, tables, transport, nodes, host or root. See
    /// `automatic_for_any_count`.
    fixed_for_any_count,
    by_tree  ///< what `tree<L>` asks for
  };
  /// One balanced binary tree over L leaves, a power of two, whose bits are the same for 1, 2, 4, ... L ranks. See
  /// `automatic_by_tree`.
  template <int L>
  struct tree {};

  value is = fixed_for_size;
  constexpr order(value v) : is{v} {}  // NOLINT: order::any is an order
  constexpr operator value() const { return is; }
};

/// The algorithm of a call that names none: of all candidates (select/candidates.hpp) that the operator, the number of
/// ranks and the counts allow, the one with the least predicted time. The prediction depends on the collective, the
/// number of ranks, the bytes on the wire (rounded down, to four lengths an octave) and a table of constants,
/// `kolo::tuning`: the one that the program named (`kolo::use_tuning`), else the transport's own, else the default one
/// (select/default_tuning.hpp). All that is the same on every rank and in every run, and so is the choice; nobody has
/// to ask the others. `kolo::explain` tells the reasons.
///
/// Where the transport has collectives of its own (MPI's, see `native`), they are candidates as well: if the table has
/// times for them, if all ranks know that the vector has at most 2^31 - 1 bytes (never in an alltoall with counts), and
/// if no bit is at stake: where nothing is combined, where integers are, with an operator of kolo's, where they keep
/// the order of the ranks, or where any order is allowed. They do not notice when ranks call different things, and keep
/// the buffers after a failure, so they are chosen only where they save a twentieth of the time or more; where that
/// matters more, name a table without such times.
///
/// NCCL's come first: without times, in their own order, and of any length, unless a table was named. They give the
/// same bits on every rank; in the next run they may not, as where a switch adds.
/// `ordered<order::fixed_for_size>(automatic{})` keeps to algorithms that do.
///
/// Where ranks live on nodes, near each other on one and far from those on others (`routed`), what goes inside a node
/// is predicted by the default table of shared memory, and what goes between nodes by the table; an allreduce,
/// reduce_scatter or allgather may then be `two_level<>`, on all lanes or on one, if ranks are numbered node by node.
/// The choice depends on the nodes as well, and so do the bits. Not where a fit decides: it knows one kind of link.
///
/// A table that was fitted in this run (`kolo::fit`) may only decide what changes no bit: where nothing is combined,
/// and among candidates that combine in the same order. With `ordered<order::any>(automatic{})` as the algorithm of a
/// call, it decides everything; so it does where the operator is exact on the elements (`is_exact`), since then all
/// orders give the same bits.
struct automatic {
  static constexpr auto allowed = order::fixed_for_size;
};
namespace detail::schedule {
struct automatic_in_any_order {
  static constexpr auto allowed = order::any;
};
struct automatic_in_fixed_order {  ///< also where the transport's own collectives come first
  static constexpr auto allowed = order::fixed_for_size;
};

/// `ordered<order::fixed_for_any_count>(automatic{})`: the choice is among schedules that combine every element by the
/// same tree and round it at the same places (select/one_tree.hpp), which is proven (`same_bits` in
/// schedule/same_bits.hpp). Which tree it is follows from the collective, the number of ranks and whether elements
/// travel as another type. `explain` says what that costs. An operator that is exact on the elements gives the same
/// bits anyhow, and chooses freely. A reduce comes about at rank 0 and is sent on to the root. A reduce_scatter cannot
/// have a `wire` type, since an owner does not round its own operand.
struct automatic_for_any_count {
  static constexpr auto allowed = order::fixed_for_any_count;
};

/// `ordered<order::tree<8>>(automatic{})`, of an allreduce or a reduce: every rank brings what a subtree of 8 / p
/// leaves comes to, combined neighbours first, rank r that of the leaves r * 8 / p ... (r + 1) * 8 / p - 1. So p must
/// divide 8 (else `invalid_argument`). An average divides once, by 8. Neither a `wire` type, nor an average of elements
/// of 16 bits: these would be rounded where ranks meet.
template <int L>
struct automatic_by_tree {
  static_assert(L >= 1 && (L & (L - 1)) == 0, "kolo: order::tree<L> has a power of two of leaves");
  static constexpr auto allowed = order::by_tree;
};

/// How many leaves an algorithm asks for; 0: none.
template <class A>
inline constexpr int leaves_of = 0;
template <int L>
inline constexpr int leaves_of<automatic_by_tree<L>> = L;

template <class A>
concept Automatic =
    std::same_as<std::remove_cv_t<A>, automatic> || std::same_as<std::remove_cv_t<A>, automatic_in_any_order> ||
    std::same_as<std::remove_cv_t<A>, automatic_in_fixed_order> ||
    std::same_as<std::remove_cv_t<A>, automatic_for_any_count> || 0 < leaves_of<std::remove_cv_t<A>>;

/// Must a call keep to one tree?
template <class A>
inline constexpr bool keeps_one_tree = false;
template <Automatic A>
inline constexpr bool keeps_one_tree<A> = A::allowed == order::fixed_for_any_count || A::allowed == order::by_tree;
}  // namespace detail::schedule

/// `kolo::allreduce(comm, x, kolo::sum, ordered<order::any>(automatic{}))`. Only the choice has an order that may be
/// free: an algorithm that is named always has the same for a number of ranks, and stays what it is.
template <order::value Allowed, class A>
constexpr auto ordered(const A& algorithm) {
  static_assert(Allowed != order::by_tree,
                "kolo: say how many leaves the tree has: ordered<order::tree<8>>(automatic{})");
  if constexpr (!detail::schedule::Automatic<A>) return algorithm;
  else if constexpr (Allowed == order::any) return detail::schedule::automatic_in_any_order{};
  else if constexpr (Allowed == order::fixed_for_any_count) return detail::schedule::automatic_for_any_count{};
  else return detail::schedule::automatic_in_fixed_order{};
}
/// `ordered<order::tree<8>>(automatic{})`.
template <class Tree, class A>
constexpr auto ordered(const A&) {
  static_assert(detail::schedule::Automatic<A>,
                "kolo: only the choice can be told a tree: ordered<order::tree<8>>(automatic{})");
  return []<int L>(order::tree<L>) { return detail::schedule::automatic_by_tree<L>{}; }(Tree{});
}

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithm of a call that names none; how the library chooses it: select/choose.hpp.
#pragma once

#include <kolo/core/kind.hpp>

#include <concepts>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// In which order a call may combine, where rounding makes that visible.
enum class order {
  /// Any: also one that was chosen by what was measured in this run, so that the next run may differ in the last bits; and that of the transport's own
  /// collective, where MPI does not promise the same bits on every rank. Kolo's algorithms give the same bits on every rank.
  any,
  fixed_for_size  ///< the same in every run of a call with this many ranks: the same bits
};

/// The algorithm of a call that names none: of all candidates (select/candidates.hpp) that the operator, the number of ranks and the
/// counts allow, the one with the least predicted time. The prediction depends on the collective, the number of ranks, the bytes on the wire (rounded
/// down, to four lengths an octave) and a table of constants, `kolo::tuning`: the one that the program named (`kolo::use_tuning`), else the transport's own,
/// else the recorded one (select/recorded.hpp). All that is the same on every rank and in every run, and so is the choice; nobody has to
/// ask the others. `kolo::explain` tells the reasons.
///
/// Where the transport has collectives of its own (MPI's, see `native`), they are candidates as well: if the table has times for them, if all ranks
/// know that the vector has at most 2^31 - 1 bytes (never in an alltoall with counts), and if no bit is at stake: where nothing is combined, where
/// integers are, with an operator of kolo's, where they keep the order of the ranks, or where any order is allowed. They do not notice when ranks call different things, and keep the buffers
/// after a failure, so they are chosen only where they save a twentieth of the time or more; where that matters more, name a table without such times.
///
/// NCCL's come first: without times, in their own order, and of any length, unless a table was named. They give the same bits on every rank; in the next run they
/// may not, as where a switch adds. `ordered<order::fixed_for_size>(automatic{})` keeps to algorithms that do.
///
/// Where ranks live on nodes, near each other on one and far from those on others (`routed`), what goes inside a node is predicted by the recorded table of
/// shared memory, and what goes between nodes by the table; an allreduce, reduce_scatter or allgather may then be `two_level<>`, on all lanes or on one, if
/// ranks are numbered node by node. The choice depends on the nodes as well, and so do the bits. Not after `kolo::fit`, which knows one kind of link.
///
/// A table that was fitted in this run (`kolo::fit`) may only decide what changes no bit: where nothing is combined, and among candidates that combine
/// in the same order. With `ordered<order::any>(automatic{})` as the algorithm of a call, it decides everything; so it does where the operator is exact
/// on the elements (`is_exact`), since then all orders give the same bits.
struct automatic {
  static constexpr auto allowed = order::fixed_for_size;
};
struct automatic_in_any_order {
  static constexpr auto allowed = order::any;
};
struct automatic_in_fixed_order {  ///< also where the transport's own collectives come first
  static constexpr auto allowed = order::fixed_for_size;
};

namespace detail {
template <class A>
concept Automatic =
    std::same_as<std::remove_cv_t<A>, automatic> || std::same_as<std::remove_cv_t<A>, automatic_in_any_order> ||
    std::same_as<std::remove_cv_t<A>, automatic_in_fixed_order>;
}  // namespace detail

/// `kolo::allreduce(comm, x, kolo::sum, ordered<order::any>(automatic{}))`. Only the choice has an order that may be free: an algorithm that is named
/// always has the same for a number of ranks, and stays what it is.
template <order Allowed, class A>
constexpr auto ordered(const A& algorithm) {
  if constexpr (!detail::Automatic<A>) return algorithm;
  else if constexpr (Allowed == order::any) return automatic_in_any_order{};
  else return automatic_in_fixed_order{};
}

}  // namespace kolo::inline KOLO_ABI

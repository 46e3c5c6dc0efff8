// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The family of two levels: its parameters, and the cost of its schedules.
#pragma once

#include <kolo/schedule/topology.hpp>

namespace kolo::inline KOLO_ABI {

struct circulant;

/// A family made of two: `two_level<two_shot, ring>{.nodes = {.ranks_per_node = 8}}`. On every node `lanes` ranks, the
/// leaders, exchange messages with other nodes, each for a run of neighbours that reaches it by a binomial tree. 0: as
/// many lanes as the smallest node has ranks; 1: one, as in MPI libraries.
///
/// Before  the collective's precondition (`schedule/semantics.hpp`); m lanes of as many blocks as Between has; kinds
///         with parts: p blocks, or m p if runs differ in length.
/// After   the collective's postcondition.
/// Cost    N nodes of at most s ranks, m lanes, t = ceil(lg) of the longest run: 0 if every rank has a lane. allreduce:
///         a reduce_scatter of n bytes among m ranks, an allreduce of n/m among N, an allgather of n among m. reduce,
///         broadcast: one of n/m among N, and n among m before and after it, at the root by a tree of ceil(lg m)
///         rounds. reduce_scatter, allgather: one of n among m and one of n/m among N. All of them: t rounds of n
///         bytes, up to and down from the ranks that have a lane; with parts, t short rounds instead on the side of the
///         parts, and m-1 more if runs differ. gather, scatter, barrier: one among N, on one lane, and trees inside, of
///         ceil(lg s) rounds. A root that is not its run's leader: one round more. alltoall, on all lanes, of equal
///         parts: (s-1) + (N-1) messages, n bytes inside and n between; if nodes differ, Between's among all ranks.
/// Order   the order of the ranks, if both families keep it; then a reduce whose root is not in the first node takes
///         one round more.
/// Errors  supports only the sizes that the nodes hold. If nodes or runs differ, or a schedule is folded (see `fold`),
///         its peers must be single ranks. Neither family may use scratch. For kinds with parts, schedules have one
///         block a rank, and ranges of neighbours. Where a family lacks a kind, circulant, binomial, dissemination or
///         pairwise replaces it. alltoall: as bruck::alltoall.
/// Source  lanes: Traff and Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER
///         2020.
template <class Inside = circulant, class Between = circulant>
struct two_level {
  topology nodes{};
  int lanes = 0;
  [[no_unique_address]] Inside inside{};
  [[no_unique_address]] Between between{};
  struct allreduce;
  struct reduce;
  struct broadcast;
  struct barrier;
  struct reduce_scatter;
  struct allgather;
  struct gather;
  struct scatter;
  struct alltoall;
};

}  // namespace kolo::inline KOLO_ABI

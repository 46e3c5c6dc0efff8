// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options of an optimizer of this library: steps, buckets and ranks.
#pragma once

#include <kolo/collective/call.hpp>
#include <kolo/core/error.hpp>
#include <kolo/train/background.hpp>
#include <kolo/train/leaves.hpp>
#include <kolo/train/tensor.hpp>

#include <cstddef>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// Whether ranks may run out of data before others (`join`), and by how many ranks an average then divides.
enum class uneven {
  /// they may not: if a rank takes fewer steps, the others throw `errc::mismatch` or `errc::peer_left`
  refused,
  by_all,        ///< by all ranks: one that has joined adds zeros
  by_those_left  ///< by the ranks that still have data
};

/// Options of an optimizer: how gradients are put into buckets, when they are exchanged, how they are treated.
struct optimizer_options {
  std::size_t bucket_bytes = 0;  ///< the longest bucket of several tensors; 0: by the cost model (buckets.hpp)
  std::vector<std::vector<std::size_t>> groups{};  ///< parameters, by index, that form one bucket of any size
  /// Backward passes of a step, whose gradients accumulate in place; an average is also over the passes
  int passes = 1;
  /// Micro-batches of a step over all ranks, for the same bits on any number of ranks (`leaves`). 0: not by leaves
  int leaves = 0;
  /// What `wire` rounds away is added to the next gradients; skip_step and load_sharded_checkpoint discard it
  bool error_feedback = false;
  double density = 0.25;            ///< fraction of rows above which a sparse gradient is exchanged as a dense one
  uneven inputs = uneven::refused;  ///< whether ranks may have different numbers of batches
  background* helper = nullptr;     ///< progresses the exchange while this thread computes (train/background.hpp)
};

namespace detail::train {

/// Returns the number of this rank's backward passes in a step. Errors: `invalid_argument`, on all ranks, for leaves
/// that one tree cannot combine, or options that exclude leaves.
template <class Op, class Algorithm, class Comm>
int passes_of(const Comm& comm, const optimizer_options& o) {
  if (o.leaves == 0) return o.passes;
  const auto refuse_if = [](bool condition, const char* sentence) {
    if (condition) throw error{errc::invalid_argument, sentence};
  };
  const extent own = checked(leaves{o.leaves}, comm.size()).of(comm.rank(), comm.size());
  refuse_if(o.passes != 1, "a leaf is one backward pass: say options.leaves or options.passes");
  refuse_if(o.inputs != uneven::refused, "options.leaves: all leaves are computed, so no rank runs out of data");
  refuse_if(has_wire<Op>, "options.leaves: gradients that travel as another type would be rounded where ranks meet");
  refuse_if(!schedule::Automatic<Algorithm>, "options.leaves has an order of its own: name no algorithm");
  return int(own.count);
}

}  // namespace detail::train
}  // namespace kolo::inline KOLO_ABI

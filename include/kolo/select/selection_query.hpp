// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The query of the automatic choice.
#pragma once

#include <kolo/execute/pattern.hpp>
#include <kolo/schedule/automatic.hpp>
#include <kolo/select/candidates.hpp>

#include <climits>

namespace kolo::inline KOLO_ABI::detail::select {

struct node_choice;  // select/on_nodes.hpp

/// Everything that a choice depends on.
struct selection_query {
  kind collective{};
  int size = 0;
  std::size_t bytes = 0;  ///< of the vector, all parts together; 0 if ranks do not know it
  bool commutes = true;
  bool is_ragged = false;
  bool converts = false;    ///< there is a wire type: each algorithm rounds at other points
  bool has_streams = true;  ///< the transport runs simple schedules as streams
  bool has_board = false;   ///< and has a board
  order allowed = order::fixed_for_size;
  /// The transport has its own collective for these elements and this operator, which cannot change promised bits.
  bool takes_native = false;
  bool native_first = false;  ///< the transport's own is selected if its time is not known
  std::size_t most_native_bytes = INT_MAX;
  const node_choice* nodes = nullptr;  ///< set if ranks form nodes: the transport's, or those of the fit that decides

  bool is_eligible(const candidate& c) const {
    if (c.is_native) return takes_native && knows_bytes() && bytes <= most_native_bytes;
    return (commutes || c.is_ordered) && (!is_ragged || c.takes_ragged) && c.supports(size);
  }
  bool reduces_in_order() const { return schedule::reduces(collective) && allowed != order::any; }
  bool knows_bytes() const { return collective != kind::alltoall || !is_ragged; }
  pattern runs_as(const execute::schedule_ref& s) const {
    return has_streams && !converts ? execute::classify(s, collective, size) : pattern::rounds;
  }
  /// Whether a fitted table may decide between the candidates of this tree.
  bool leaves_bits(const candidate& c) const { return c.tree != 0 && !converts; }
};

}  // namespace kolo::inline KOLO_ABI::detail::select

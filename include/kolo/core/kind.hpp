// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives, by number and by name.
#pragma once

#include <kolo/config.hpp>

namespace kolo::inline KOLO_ABI {

/// What an algorithm accomplishes. `schedule/semantics.hpp` says for each kind what is held before and after.
enum class kind {
  allreduce,
  reduce_scatter,
  allgather,
  broadcast,
  reduce,
  gather,
  scatter,
  alltoall,
  scan,
  exclusive_scan,
  barrier,
  permutation,
  send,  ///< this and what follows is between two ranks, and no other calls it
  receive,
  exchange
};

namespace detail::core {
inline constexpr const char* kind_names[] = {"allreduce", "reduce_scatter", "allgather", "broadcast", "reduce",
                                             "gather",    "scatter",        "alltoall",  "scan",      "exclusive_scan",
                                             "barrier",   "permutation",    "send",      "receive",   "exchange"};

/// Is it from one rank to one rank, or both ways? Only those two call it.
constexpr bool is_between_two(kind k) { return k >= kind::send; }
/// Does one rank, which the call names, give what the others get, or get what they give?
constexpr bool has_root(kind k) {
  return k == kind::broadcast || k == kind::reduce || k == kind::gather || k == kind::scatter;
}
}  // namespace detail::core

constexpr const char* name(kind k) {
  const auto index = static_cast<unsigned>(k);
  return index < sizeof detail::core::kind_names / sizeof detail::core::kind_names[0] ? detail::core::kind_names[index]
                                                                                      : "something else";
}

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives, by number and by name.
#pragma once

#include <kolo/config.hpp>

namespace kolo::inline KOLO_ABI {

/// The operation that an algorithm implements. `schedule/semantics.hpp` specifies what each kind requires and
/// guarantees.
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
  send,  ///< this and the following are point-to-point: only two ranks call them
  receive,
  exchange
};

namespace detail::core {
inline constexpr const char* kind_names[] = {"allreduce", "reduce_scatter", "allgather", "broadcast", "reduce",
                                             "gather",    "scatter",        "alltoall",  "scan",      "exclusive_scan",
                                             "barrier",   "permutation",    "send",      "receive",   "exchange"};

/// Whether it is a point-to-point call, one way or both ways. Only those two ranks make it.
constexpr bool is_point_to_point(kind k) { return k >= kind::send; }
/// Whether the call names one rank that sends to the others, or receives from them.
constexpr bool has_root(kind k) {
  return k == kind::broadcast || k == kind::reduce || k == kind::gather || k == kind::scatter;
}
}  // namespace detail::core

constexpr const char* name(kind k) {
  const auto index = unsigned(k);
  return index < sizeof detail::core::kind_names / sizeof detail::core::kind_names[0] ? detail::core::kind_names[index]
                                                                                      : "something else";
}

}  // namespace kolo::inline KOLO_ABI

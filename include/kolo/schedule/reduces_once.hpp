// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The proof that a schedule sends no partial results, so a `wire` type rounds each operand once, and the result once.
#pragma once

#include <kolo/schedule/verify.hpp>

namespace kolo::inline KOLO_ABI {

/// Whether every message carries the operand of one rank, or the result. Then each block is combined at one owner
/// (two_shot), or by every rank for itself (one_shot). False for a schedule that `verify` rejects. Costs a proof.
template <Schedule S>
  requires(detail::schedule::reduces(S::collective))
constexpr bool reduces_once(const S& schedule, int size) {
  if (size == 1) return true;
  if (!supports(schedule, size)) return false;
  const detail::schedule::erased<S> subject{schedule, size};
  if (detail::schedule::misfit_of(subject)) return false;
  detail::schedule::prover proof{subject};
  return proof.run() && !proof.sends_partial_results();
}

}  // namespace kolo::inline KOLO_ABI

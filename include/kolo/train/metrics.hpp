// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Averages over the ranks of what each has measured: losses, accuracies, seconds.
#pragma once

#include <kolo/collective/allreduce.hpp>

#include <span>

namespace kolo::inline v0 {

/// Every metric becomes its mean over the ranks, on every rank. All at once: one operation for as many as there are.
/// Means over samples stay right when every rank has as many samples.
template <class Comm>
void average_metrics(Comm& comm, std::span<double> metrics) {
  kolo::allreduce(comm, metrics, average);
}

}  // namespace kolo::inline v0

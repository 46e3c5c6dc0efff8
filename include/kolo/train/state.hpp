// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every rank begins with the same parameters: those of the root.
#pragma once

#include <kolo/collective/broadcast.hpp>
#include <kolo/train/parameter.hpp>
#include <kolo/view/bucket.hpp>

namespace kolo::inline v0 {

/// Every `.value` becomes the root's, in one broadcast of them all; nothing else is touched.
///
/// Before: the same number of parameters, of the same sizes, on every rank. Errors: those of `kolo::broadcast`.
template <class Comm, Parameters Range>
void broadcast_parameters(Comm& comm, Range&& parameters, int root = 0) {
  const auto values = values_of(parameters);
  kolo::broadcast(comm, bucket{values}, root);
}

}  // namespace kolo::inline v0

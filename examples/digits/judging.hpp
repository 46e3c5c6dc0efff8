// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The accuracy of a network on a data set: each rank evaluates a part, and all ranks get the result.
#pragma once

#include "dataset.hpp"
#include "network.hpp"

#include <kolo/collective/allreduce.hpp>
#include <kolo/train/data.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace digits {

/// Collective: the fraction of images that are classified correctly, which does not depend on the number of ranks. All
/// ranks pass the same network.
template <class Comm>
double accuracy(Comm& comm, network& model, const dataset& data) {
  constexpr std::size_t at_once = 100;
  std::uint64_t right = 0;
  for (const slice& some : kolo::shard(slices{data, at_once}, comm, kolo::remainder::exact))
    right += model.recognised(some);
  kolo::allreduce(comm, std::span{&right, 1}, kolo::sum);
  return double(right) / double(data.size());
}

}  // namespace digits

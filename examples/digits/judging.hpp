// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much of a data set a network recognises: each rank looks at its part, and all know the result.
#pragma once

#include "dataset.hpp"
#include "network.hpp"

#include <kolo/collective/allreduce.hpp>
#include <kolo/train/data.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace digits {

/// Fraction of the images that are recognised, the same number for every number of ranks. Collective; ranks have the same network.
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

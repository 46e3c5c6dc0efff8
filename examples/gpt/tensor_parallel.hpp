// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor parallel: each rank has a part of every matrix of a block, and products are summed over the ranks.
#pragma once

#include "model.hpp"

#include <kolo/collective/allreduce.hpp>

#include <cstddef>
#include <span>

namespace gpt {

/// Shoeybi et al., "Megatron-LM", arXiv 1909.08053. Matrices come in pairs, query, key and value with the projection,
/// up with down: of the first a rank has some rows, heads of the attention or neurons, and of the second the columns
/// that take what these give. So ranks meet once behind each pair: two sums in a block, and two on the way back, of
/// what goes into it. Layer norms, biases behind a sum, embeddings and head are on every rank; what goes through them
/// is the same on all, so their gradients are as well.
template <class T, class Ranks>
void share_matrices(share<T>& s, Ranks& ranks) {
  s.matrices = {ranks.comm.rank(), ranks.comm.size()};
  if (ranks.comm.size() > 1)
    s.sum = [&ranks](matrix<T>& x) {
      kolo::allreduce(ranks.call(), std::span{x.data(), std::size_t(x.size())}, kolo::sum);
    };
}

}  // namespace gpt

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor parallelism: each rank has a part of every matrix of a block; products are summed over the ranks.
#pragma once

#include "model.hpp"

#include <kolo/collective/allreduce.hpp>

#include <cstddef>
#include <span>

namespace gpt {

/// Shoeybi et al., "Megatron-LM", arXiv 1909.08053. Matrices come in pairs, query, key and value with the projection,
/// up with down. A rank has some rows of the first (heads or neurons), and the columns of the second that use the
/// outputs of these rows. So one allreduce follows each pair: two per block in the forward pass, of outputs, and two in
/// the backward pass, of gradients by inputs. Layer norms, biases added after a sum, embeddings and head are on every
/// rank, with equal inputs, so their gradients are equal, too.
template <class T, class Ranks>
void share_matrices(share<T>& s, Ranks& ranks) {
  s.matrices = {ranks.comm.rank(), ranks.comm.size()};
  if (ranks.comm.size() > 1)
    s.sum = [&ranks](matrix<T>& x) {
      kolo::allreduce(ranks.call(), std::span{x.data(), std::size_t(x.size())}, kolo::sum);
    };
}

}  // namespace gpt

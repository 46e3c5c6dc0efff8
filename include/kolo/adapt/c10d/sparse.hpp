// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sum of sparse tensors: every rank gathers the entries of all ranks, and adds them up.
#pragma once

#include <kolo/adapt/c10d/tensors.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace kolo::inline KOLO_ABI::c10d {

/// Before  tensors of the same shape and number of sparse dimensions on all ranks. After  t is the sum, coalesced.
/// Cost    three allgathers: of the numbers of entries, of their indices, and of their values.
template <class Comm>
void sum_sparse(Comm& c, at::Tensor t, const typename Comm::options& how) {
  const at::Tensor mine = t.coalesce();
  const at::Tensor where = mine.indices().t().contiguous(),
                   what = flattened(mine.values());  // (n, dimensions), (n, ...)
  const std::int64_t n = mine._nnz();
  std::vector<std::int64_t> all(std::size_t(c.size()));
  kolo::allgather(c, std::span{&n, 1}, all, how);

  std::int64_t total = 0;
  for (const auto entries : all) total += entries;
  const auto gathered = [&](const at::Tensor& part) {
    auto shape = part.sizes().vec();
    shape[0] = total;
    const at::Tensor whole = at::empty(shape, part.options());
    const auto each = total > 0 ? whole.numel() / total : 0;
    std::vector<std::size_t> counts;
    for (const auto entries : all) counts.push_back(std::size_t(entries * each));
    kolo::allgather(c, elements_of(part), elements_of(whole), counts, how);
    return whole;
  };
  const at::Tensor places = gathered(where).t(), values = gathered(what);
  t.copy_(at::sparse_coo_tensor(places, values, t.sizes()).coalesce());
}

}  // namespace kolo::inline KOLO_ABI::c10d

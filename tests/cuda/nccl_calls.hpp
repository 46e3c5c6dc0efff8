// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that every rank makes over NCCL, by NCCL's own collectives and by kolo's algorithms: for the fake NCCL, and for NCCL itself.
#pragma once

#include "cuda/ranks.hpp"

namespace testing {

template <class T>
std::vector<T> values(int r, std::size_t n) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<T>(static_cast<float>(static_cast<std::size_t>(r + 1) * (i % 7 + 1)));
  return x;
}

/// Compares NCCL's own reductions with kolo's algorithms, for operators and elements that both have: small integers, so that the order does not change the
/// bits.
template <class T, class C, class Op>
void same_as_ours(C& comm, complaints& wrong, cudaStream_t s, const Op& op, const char* name) {
  const int p = comm.size(), r = comm.rank(), root = p / 2;
  for (const std::size_t n : {std::size_t{40}, static_cast<std::size_t>(8 * p)}) {
    const auto mine = values<T>(r, n);
    const auto own = static_cast<std::size_t>(kolo::block(n, p, r).count);
    tensor<T> in{mine, s}, a{mine, s}, b{mine, s}, c{mine, s}, d{mine, s}, e{std::vector<T>(own), s},
        f{std::vector<T>(own), s};
    kolo::allreduce(comm, a.view(), op, kolo::native{}, {.stream = s});
    kolo::allreduce(comm, b.view(), op, kolo::two_shot{}, {.stream = s});
    expect_same(wrong, std::string{"allreduce "} + name, r, a.values(), b.values());
    kolo::reduce(comm, in.view(), c.view(), op, root, kolo::native{}, {.stream = s});
    kolo::reduce(comm, in.view(), d.view(), op, root, kolo::binomial{}, {.stream = s});
    if (r == root) expect_same(wrong, std::string{"reduce "} + name, r, c.values(), d.values());
    kolo::reduce_scatter(comm, in.view(), e.view(), op, kolo::native{}, {.stream = s});
    kolo::reduce_scatter(comm, in.view(), f.view(), op, kolo::ring{}, {.stream = s});
    expect_same(wrong, std::string{"reduce_scatter "} + name, r, e.values(), f.values());
  }
}

template <class C>
void as_ours(C& comm, complaints& wrong, cudaStream_t s) {
  same_as_ours<float>(comm, wrong, s, kolo::sum, "float sum");
  same_as_ours<double>(comm, wrong, s, kolo::max, "double max");
  same_as_ours<std::int64_t>(comm, wrong, s, kolo::min, "int64 min");
  same_as_ours<std::uint8_t>(comm, wrong, s, kolo::product, "uint8 product");
  same_as_ours<kolo::bfloat16>(comm, wrong, s, kolo::average, "bfloat16 average");
  const int p = comm.size(), r = comm.rank();
  std::vector<std::size_t> counts(static_cast<std::size_t>(p));
  for (std::size_t q = 0; q < counts.size(); ++q) counts[q] = q % 3 * 5;
  tensor<float> part{of_rank(r, counts[static_cast<std::size_t>(r)] + 1), s};
  tensor<float> all{std::vector<float>(static_cast<std::size_t>(10 * p)), s}, also{all.values(), s};
  const auto mine = part.view().subspan(0, counts[static_cast<std::size_t>(r)]);
  std::size_t total = 0;
  for (const auto n : counts) total += n;
  kolo::allgather(comm, mine, all.view().subspan(0, total), counts, kolo::native{}, {.stream = s});
  kolo::allgather(comm, mine, also.view().subspan(0, total), counts, kolo::ring{}, {.stream = s});
  expect_same(wrong, "ragged allgather", r, all.values(), also.values());
  tensor<float> wide{of_rank(r, 60), s};
  const kolo::device_strided<float, 2> columns{wide.data(), {15, 1}, {4, 1}};
  kolo::broadcast(comm, columns, p - 1, kolo::native{}, {.stream = s});
  auto expected = of_rank(r, 60);
  for (std::size_t i = 0; i < 60; i += 4) expected[i] = of_rank(p - 1, 60)[i];
  expect_same(wrong, "broadcast of a strided view", r, wide.values(), expected);
}

}  // namespace testing

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls on device memory as CCCL's algorithms on several GPUs make them: in place, from and to parts with gaps between them.
#pragma once

#include <kolo/adapt/cccl.hpp>

#include "cuda/ranks.hpp"

#include <numeric>

namespace testing {

struct stream_of {
  cudaStream_t stream;
  cudaStream_t get() const { return stream; }
};

template <class C>
void calls_of_cccl(C& comm, complaints& wrong, cudaStream_t s) {
  const kolo::cccl_communicator c{comm};
  const stream_of on{s};
  const int r = c.rank();
  const auto p = static_cast<std::size_t>(c.size()), me = static_cast<std::size_t>(r);
  std::vector<std::size_t> counts(p), places(p), to_each(p), from_each(p);
  std::vector<float> numbers(p), own(p, -1), gaps(100 * p, -1), sent(100 * p), exchanged = gaps, all = gaps;
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  own[me] = numbers[me];
  for (std::size_t k = 0; k < p; ++k) {
    counts[k] = 10 * k, places[k] = 100 * k, to_each[k] = me + 2 * k, from_each[k] = k + 2 * me;
    for (std::size_t i = 0; i < counts[k]; ++i) all[places[k] + i] = static_cast<float>(100 * k + i);
    for (std::size_t i = 0; i < to_each[k]; ++i) sent[places[k] + i] = static_cast<float>(1000 * me + 100 * k + i);
    for (std::size_t i = 0; i < from_each[k]; ++i)
      exchanged[places[k] + i] = static_cast<float>(1000 * k + 100 * me + i);
  }
  auto part = gaps;
  std::copy_n(all.begin() + 100 * r, counts[me], part.begin() + 100 * r);
  tensor<float> x{own, s}, sum{numbers, s}, gathered{part, s}, in{sent, s}, out{gaps, s}, each{numbers, s},
      back{own, s};
  {
    auto guard = c.group_guard();
    c.all_gather(guard, x.data() + r, x.data(), 1, on);
    c.all_reduce(guard, sum.data(), sum.data(), p, kolo::sum, on);
    c.all_gather_v(guard, gathered.data() + places[me], counts[me], gathered.data(), counts.data(), places.data(), on);
    c.all_to_all_v(guard, in.data(), to_each.data(), places.data(), out.data(), from_each.data(), places.data(), on);
    c.all_to_all(guard, each.data(), back.data(), 1, on);
  }
  auto sums = numbers;
  for (auto& v : sums) v *= static_cast<float>(p);
  expect_same(wrong, "all_gather", r, x.values(), numbers);
  expect_same(wrong, "all_reduce", r, sum.values(), sums);
  expect_same(wrong, "all_gather_v", r, gathered.values(), all);
  expect_same(wrong, "all_to_all_v", r, out.values(), exchanged);
  expect_same(wrong, "all_to_all", r, back.values(), std::vector<float>(p, numbers[me]));
}

}  // namespace testing

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views without a copy: columns of a matrix, many tensors as one vector, memory that peers address directly.
#include "expect.hpp"

#include <kolo/kolo.hpp>

#include <cstddef>
#include <cstdio>
#include <span>
#include <vector>

/// The first four columns of a matrix with longer rows.
void columns_of_a_matrix(auto& comm) {
  const int rows = 50;
  const std::ptrdiff_t stride = 7;
  std::vector<float> matrix(std::size_t(rows * stride), 1);
  float* pointer = matrix.data();
  // clang-format off
kolo::strided<float, 2> columns{pointer, {rows, 4}, {stride, 1}};    // extents and strides of any integer type
  // clang-format on
  kolo::allreduce(comm, columns, kolo::sum);
  for (std::size_t i = 0; i < matrix.size(); ++i)
    expect(matrix[i] == (i % std::size_t(stride) < 4 ? 4 : 1), "the columns are summed, and nothing else is touched");
}

/// All tensors of a model in one operation.
void many_tensors(auto& comm) {
  std::vector<float> w1(300, 1), b1(10, 2), w2(70, 3), b2(1, 4);
  // clang-format off
kolo::bucket all{w1, b1, w2, b2};                               // many tensors, one logical vector, no copy; temporaries do not compile
  // clang-format on
  expect(all.size() == 381, "a bucket is as long as its tensors together");
  kolo::allreduce(comm, all, kolo::average);
  expect(w1[299] == 1 && b1[0] == 2 && w2[69] == 3 && b2[0] == 4, "the average of equal tensors is each of them");

  std::vector<std::span<float>> views;
  for (auto* tensor : {&w1, &b1, &w2, &b2}) views.push_back(*tensor);
  // clang-format off
kolo::bucket many{std::span{views}};                            // as many as are known at run time
  // clang-format on
  kolo::allreduce(comm, many, kolo::sum);
  expect(w1[299] == 4 && b1[0] == 8 && w2[69] == 12 && b2[0] == 16, "the tensors are summed in place");
}

/// An array on every rank that all ranks can read.
void common_memory(auto& comm) {
  const std::size_t n = 1000;
  // clang-format off
auto fast = kolo::symmetric<float>(comm, n);                    // memory that peers address directly; fast.data(), fast.size()
  // clang-format on
  expect(fast.size() == n && fast.data()[0] == 0, "it begins with zeros");
  for (std::size_t i = 0; i < fast.size(); ++i) fast.data()[i] = float(comm.rank());
  kolo::barrier(comm);
  for (int r = 0; r < comm.size(); ++r) expect(fast.of(r)[n - 1] == float(r), "all ranks read the values of rank r");
  kolo::barrier(comm);
  kolo::allreduce(comm, fast, kolo::sum);
  expect(fast.data()[0] == 6 && fast.data()[n - 1] == 6, "it is a view like any other");
}

int main() {
  const int status = kolo::shm::launch(4, [](auto& comm) {
    columns_of_a_matrix(comm);
    many_tensors(comm);
    common_memory(comm);
  });
  if (status == 0) std::puts("Columns, buckets and common memory were summed in place.");
  return status;
}

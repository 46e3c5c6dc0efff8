// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bucket has one element type.
// expect: kolo::bucket: all tensors must have the same element type
#include <kolo/view/bucket.hpp>

#include <vector>

int main() {
  std::vector<float> weights(3);
#ifdef KOLO_WRONG
  std::vector<double> biases(3);
#else
  const std::vector<float> biases(3);
#endif
  kolo::bucket all{weights, biases};
  return all.size() != 6;
}

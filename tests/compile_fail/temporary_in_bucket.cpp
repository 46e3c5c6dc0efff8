// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bucket references its tensors: a temporary would be destroyed before it is used.
// expect: kolo: .*temporar
#include <kolo/kolo.hpp>

#include <vector>

int main() {
  std::vector<float> weights(10);
#ifdef KOLO_WRONG
  kolo::bucket all{weights, std::vector<float>(3)};
#else
  std::vector<float> biases(3);
  kolo::bucket all{weights, biases};
#endif
  return all.size() == 13 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// std::vector<bool> has no elements in memory.
// expect: kolo::bucket takes tensors
#include <kolo/view/bucket.hpp>

#include <vector>

int main() {
#ifdef KOLO_WRONG
  std::vector<bool> mask(3);
#else
  std::vector<char> mask(3);
#endif
  kolo::bucket all{mask};
  return all.size() != 3;
}

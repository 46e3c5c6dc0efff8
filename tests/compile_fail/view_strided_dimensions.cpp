// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two dimensions need two extents and two strides.
// expect: kolo::strided has as many extents and strides as dimensions
#include <kolo/view/strided.hpp>

int main() {
  float memory[12] = {};
#ifdef KOLO_WRONG
  kolo::strided<float, 2> columns{memory, {3, 4}, {4}};
#else
  kolo::strided<float, 2> columns{memory, {3, 4}, {4, 1}};
#endif
  return columns.size() != 12;
}

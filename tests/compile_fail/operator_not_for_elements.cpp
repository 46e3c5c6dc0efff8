// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bit operations are for integers: floats have no &.
// expect: kolo: the operator does not fit the elements
#include <kolo/reduce/kernel.hpp>

int main() {
#ifdef KOLO_WRONG
  const auto kernel = kolo::make_kernel<float>(kolo::bit_and);
#else
  const auto kernel = kolo::make_kernel<int>(kolo::bit_and);
#endif
  return kernel.finishes;
}

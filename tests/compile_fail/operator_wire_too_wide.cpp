// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A wire type that is wider than the element only costs bytes.
// expect: kolo::wire: .*not wider
#include <kolo/reduce/kernel.hpp>
#include <kolo/view/bfloat16.hpp>

int main() {
#ifdef KOLO_WRONG
  const auto op = kolo::wire<float>(kolo::average);
  return kolo::make_kernel<kolo::bfloat16>(op).wire_bytes != 2;
#else
  const auto op = kolo::wire<kolo::bfloat16>(kolo::average);
  return kolo::make_kernel<float>(op).wire_bytes != 2;
#endif
}

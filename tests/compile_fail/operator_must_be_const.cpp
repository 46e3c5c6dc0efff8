// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An operator is called many times, also concurrently: the call must be const.
// expect: kolo: .*const operator
#include <kolo/reduce/kernel.hpp>

struct add {
#ifdef KOLO_WRONG
  float operator()(float a, float b) { return a + b; }
#else
  float operator()(float a, float b) const { return a + b; }
#endif
};

int main() {
  const add op{};
  return kolo::make_kernel<float>(op).finishes;
}

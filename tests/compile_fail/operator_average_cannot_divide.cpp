// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// average of elements that can be added but not divided would silently be a sum.
// expect: kolo::average needs .*divided
#include <kolo/reduce/kernel.hpp>

struct pair_of_floats {
  float a, b;
  friend constexpr pair_of_floats operator+(pair_of_floats x, pair_of_floats y) { return {x.a + y.a, x.b + y.b}; }
#ifndef KOLO_WRONG
  friend constexpr pair_of_floats operator/(pair_of_floats x, float y) { return {x.a / y, x.b / y}; }
#endif
};

int main() { return !kolo::make_kernel<pair_of_floats>(kolo::average).finishes; }

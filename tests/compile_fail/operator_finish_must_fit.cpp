// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A member `finish` that cannot be called would silently be skipped: a norm without its root.
// expect: kolo: finish.*const operator
// expect: operator_check.*[ <]norm
// expect: operator_check.*wired<
// expect: operator_check.*predivided<
// expect: operator_check.*of_16_bits.*float16
#include <kolo/reduce/kernel.hpp>
#include <kolo/train/predivide.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

struct norm {
  float operator()(float a, float b) const { return a + b; }
#ifdef KOLO_WRONG
  float finish(float x, int) { return x / 2; }
#else
  float finish(float x, int) const { return x / 2; }
#endif
};

/// Works in float, so it must finish floats.
struct of_16_bits {
  float operator()(float a, float b) const { return a + b; }
#ifdef KOLO_WRONG
  kolo::float16 finish(kolo::float16 x, int) const { return x; }
#else
  float finish(float x, int) const { return x; }
#endif
};

int main() {
  return !(kolo::make_kernel<float>(norm{}).finishes &&
           kolo::make_kernel<float>(kolo::wire<kolo::bfloat16>(norm{})).finishes &&
           kolo::make_kernel<float>(kolo::predivide(norm{}, 8)).finishes &&
           kolo::make_kernel<kolo::float16>(of_16_bits{}).finishes);
}

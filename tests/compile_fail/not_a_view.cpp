// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A number is not a view; one number is a span of one.
// expect: kolo::allreduce takes \(comm, x, op\) or \(comm, in, out, op\), then an algorithm, then options
#include <kolo/kolo.hpp>

#include <span>

int main() {
  kolo::threads::run(2, [](auto& comm) {
#ifdef KOLO_WRONG
    float x = 1;
    kolo::allreduce(comm, x, kolo::sum);
#else
    float x = 1;
    kolo::allreduce(comm, std::span{&x, 1}, kolo::sum);
#endif
  });
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is const cannot be the result.
// expect: kolo: the output is a view of const elements: pass one that may be written
#include <kolo/kolo.hpp>

#include <vector>

int main() {
  kolo::threads::run(2, [](auto& comm) {
#ifdef KOLO_WRONG
    const std::vector<float> x(10);
    kolo::allreduce(comm, x, kolo::sum);
#else
    const std::vector<float> x(10);
    std::vector<float> y(10);
    kolo::allreduce(comm, x, y, kolo::sum);
#endif
  });
}

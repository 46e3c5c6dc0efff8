// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The result has the elements of the input; a conversion is never silent.
// expect: kolo: in and out must have the same element type
#include <kolo/kolo.hpp>

#include <vector>

int main() {
  kolo::threads::run(2, [](auto& comm) {
#ifdef KOLO_WRONG
    std::vector<float> x(10);
    std::vector<double> y(10);
    kolo::allreduce(comm, x, y, kolo::sum);
#else
    std::vector<float> x(10);
    std::vector<float> y(10);
    kolo::allreduce(comm, x, y, kolo::sum);
#endif
  });
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The average of integers would be rounded: nobody has said how.
// expect: kolo::average divides and would round integers: use kolo::sum
#include <kolo/kolo.hpp>

#include <vector>

int main() {
  kolo::threads::run(2, [](auto& comm) {
#ifdef KOLO_WRONG
    std::vector<int> x(10, comm.rank());
    kolo::allreduce(comm, x, kolo::average);
#else
    std::vector<float> x(10, float(comm.rank()));
    kolo::allreduce(comm, x, kolo::average);
#endif
  });
}

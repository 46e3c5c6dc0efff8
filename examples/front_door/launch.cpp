// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One binary, four ranks, nothing installed: the smallest program that does something together.
//
// The lambda runs in four processes of this host. Each has its own gradient, filled with its rank; afterwards all four have
// the average, 1.5. The program prints nothing and returns 0; had a rank thrown or died, it would say which on standard
// error and return something else.
// clang-format off
#include <kolo/kolo.hpp>
#include <vector>

int main() {
  return kolo::shm::launch(4, [](auto& comm) {                  // four processes on this host
    std::vector<float> gradient(1'000'000, float(comm.rank()));
    kolo::allreduce(comm, gradient, kolo::average);             // picks the algorithm
  });
}

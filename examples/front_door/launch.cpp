// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The smallest program: four ranks on this host, without a launcher.
//
// The lambda runs in four processes. Each fills its gradient with its rank; afterwards all four have the average, 1.5. The
// program prints nothing and returns 0. If a rank throws or dies, it names the rank on standard error and returns a
// nonzero status.
// clang-format off
#include <kolo/kolo.hpp>
#include <vector>

int main() {
  return kolo::shm::launch(4, [](auto& comm) {                  // four processes on this host
    std::vector<float> gradient(1'000'000, float(comm.rank()));
    kolo::allreduce(comm, gradient, kolo::average);             // picks the algorithm
  });
}

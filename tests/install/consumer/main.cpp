// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The smallest program that shows that the library works: four processes, one sum.
#include <kolo/kolo.hpp>

#include <vector>

int main() {
  return kolo::shm::launch(4, [](auto& comm) {
    std::vector<int> x(1000, comm.rank() + 1);
    kolo::allreduce(comm, x, kolo::sum);
    for (int value : x)
      if (value != 10) throw value;
  });
}

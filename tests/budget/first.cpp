// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The first program of the first page.
#include <kolo/kolo.hpp>
#include <vector>

int main() {
  return kolo::shm::launch(4, [](auto& comm) {
    std::vector<float> gradient(1'000'000, float(comm.rank()));
    kolo::allreduce(comm, gradient, kolo::average);
  });
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Four calls: the cost of further calls.
#include <kolo/kolo.hpp>
#include <vector>

int main() {
  return kolo::shm::launch(4, [](auto& comm) {
    std::vector<float> gradient(1'000'000, float(comm.rank())), part(10, 1.0f), all(40);
    std::vector<double> loss(1, 0.5);
    kolo::allreduce(comm, gradient, kolo::average);
    kolo::allreduce(comm, loss, kolo::sum);
    kolo::broadcast(comm, gradient, 0);
    kolo::allgather(comm, part, all);
  });
}

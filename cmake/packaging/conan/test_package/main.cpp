// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An allreduce on two ranks.
#include <kolo/kolo.hpp>

int main() {
  return kolo::shm::launch(2, [](auto& comm) {
    int x[1] = {comm.rank() + 1};
    kolo::allreduce(comm, x, kolo::sum);
    return x[0] == 3 ? 0 : 1;
  });
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements in a device's memory need a communicator that reaches them.
// expect: kolo: this view lies in a device's memory, and the communicator takes the host's only: use a device's
#include <kolo/kolo.hpp>

#include <vector>

int main() {
  kolo::threads::run(2, [](auto& comm) {
    std::vector<float> x(10, 1.0f);
#ifdef KOLO_WRONG
    kolo::allreduce(comm, kolo::device_span<float>{x.data(), x.size()}, kolo::sum);
#else
    kolo::allreduce(comm, x, kolo::sum);
#endif
  });
}

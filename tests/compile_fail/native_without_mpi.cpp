// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::native{} needs collectives of the transport itself, which threads do not have.
// expect: kolo: kolo::native selects the transport's own collectives, and this transport has none: name an algorithm
#include <kolo/kolo.hpp>

#include <vector>

int main() {
  kolo::threads::run(2, [](auto& comm) {
    std::vector<float> x(10, 1.0f);
#ifdef KOLO_WRONG
    kolo::allreduce(comm, x, kolo::sum, kolo::native{});
#else
    kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
#endif
  });
}

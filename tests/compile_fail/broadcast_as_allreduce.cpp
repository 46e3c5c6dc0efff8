// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An algorithm that only broadcasts cannot reduce.
// expect: kolo: this algorithm implements another collective than the one that is called
#include <kolo/kolo.hpp>

#include <vector>

int main() {
  kolo::threads::run(2, [](auto& comm) {
#ifdef KOLO_WRONG
    std::vector<float> x(10);
    kolo::allreduce(comm, x, kolo::sum, kolo::chain{});
#else
    std::vector<float> x(10);
    kolo::broadcast(comm, x, 0, kolo::chain{});
#endif
  });
}

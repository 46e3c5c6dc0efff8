// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ring reorders the contributions, which an operator that does not commute forbids.
// expect: kolo: the operator does not commute, and this algorithm does not say that it combines in the order of the ranks
#include <kolo/kolo.hpp>

#include <vector>

struct affine {
  float scale = 1, offset = 0;
};
struct compose {
  static constexpr bool commutative = false;
  constexpr affine operator()(affine a, affine b) const { return {a.scale * b.scale, a.offset * b.scale + b.offset}; }
};
int main() {
  kolo::threads::run(2, [](auto& comm) {
#ifdef KOLO_WRONG
    std::vector<affine> x(10);
    kolo::allreduce(comm, x, compose{}, kolo::ring{});
#else
    std::vector<affine> x(10);
    kolo::allreduce(comm, x, compose{}, kolo::recursive_doubling{});
#endif
  });
}

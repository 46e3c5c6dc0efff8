// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A scaled wire type rounds too often in an algorithm that sends partial results; only an allreduce takes it.
// expect: kolo: this algorithm sends partial results, .*use kolo::two_shot
// expect: kolo: only an allreduce takes a wire with scales
#include <kolo/kolo.hpp>
#include <kolo/scaled.hpp>

#include <vector>

int main() {
  constexpr auto op = kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::average);
  kolo::threads::run(2, [&](auto& comm) {
    std::vector<float> x(64), part(32);
#ifdef KOLO_WRONG
    kolo::allreduce(comm, x, op, kolo::ring{});
    kolo::reduce_scatter(comm, x, part, op);
#else
    kolo::allreduce(comm, x, op, kolo::two_shot{});
    kolo::reduce_scatter(comm, x, part, kolo::average);
#endif
  });
}

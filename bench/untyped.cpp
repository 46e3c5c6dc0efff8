// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of a type and operator that are known only at run time: an allreduce of 4 B between two processes, typed and untyped alternating.
#include <kolo/kolo.hpp>
#include <kolo/untyped.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <vector>

int main() {
  return kolo::shm::launch(2, [](auto& comm) {
    constexpr int calls = 2000, turns = 300;
    using clock = std::chrono::steady_clock;
    float x = 0;
    std::vector<double> typed, untyped;  // nanoseconds per call
    const auto measure = [&](std::vector<double>& all, auto call) {
      kolo::barrier(comm);
      const auto begin = clock::now();
      for (int i = 0; i < calls; ++i) call();
      all.push_back(std::chrono::duration<double, std::nano>{clock::now() - begin}.count() / calls);
    };
    for (int turn = 0; turn < turns; ++turn) {
      measure(typed, [&] { kolo::allreduce(comm, std::span{&x, 1}, kolo::sum); });
      measure(untyped, [&] {
        kolo::allreduce(comm, kolo::elements<>{&x, 1, kolo::element_type::float32}, kolo::reduction::sum);
      });
    }
    if (comm.rank() != 0) return;
    const auto show = [](const char* name, std::vector<double>& all) {
      std::sort(all.begin(), all.end());
      std::printf("%-8s %6.1f ns at least, %6.1f ns in the tenth part, %6.1f ns in the median\n", name, all.front(),
                  all[all.size() / 10], all[all.size() / 2]);
    };
    show("typed", typed);
    show("untyped", untyped);
  });
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The group `kolo_threads`: kolo's ranks as threads. Usage: kolo_bench_threads RANKS
#include "kolo_backend.hpp"

#include <cstdio>

int main(int argc, char** argv) try {
  kolo::threads::run(argc > 1 ? std::atoi(argv[1]) : 2, [](auto& comm) {
    kolo_bench::kolo_backend backend{comm};
    kolo_bench::worker{backend}.serve();
  });
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The group `kolo`: kolo's ranks as processes that share memory. Usage: kolo_bench_shm RANKS
#include "kolo_backend.hpp"

int main(int argc, char** argv) {
  return kolo::shm::launch(argc > 1 ? std::atoi(argv[1]) : 2, [](auto& comm) {
    kolo_bench::kolo_backend backend{comm};
    kolo_bench::worker{backend}.serve();
  });
}

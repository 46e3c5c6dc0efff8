// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same headers once more, in another namespace: only the addresses of code and data differ from the first.
#define KOLO_ABI again
#include "recording/measure.hpp"

std::unique_ptr<kolo_bench::subject> kolo_bench::compiled_again() {
  return std::make_unique<timed<kolo::shm::transport>>(std::move(kolo::shm::world().transport()));
}

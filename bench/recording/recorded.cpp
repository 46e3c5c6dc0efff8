// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library unchanged: without and with a trace.
#include "recording/measure.hpp"

std::unique_ptr<kolo_bench::subject> kolo_bench::as_it_is() {
  return std::make_unique<timed<kolo::shm::transport>>(std::move(kolo::shm::world().transport()));
}
std::unique_ptr<kolo_bench::subject> kolo_bench::with_trace() {
  return std::make_unique<timed<kolo::traced<kolo::shm::transport>>>(std::move(kolo::shm::world().transport()));
}

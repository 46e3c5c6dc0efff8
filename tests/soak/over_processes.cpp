// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes, as programs use them.

#include "soak/epoch.hpp"

void soak::over_processes(const outline& o) {
  on_processes<kolo::shm::transport>(o, [&](auto& comm) { play(comm, o); });
}

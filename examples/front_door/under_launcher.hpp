// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A replacement for mpiexec, srun or torchrun: starts processes, with rank and size in their environment.
#pragma once

#include <kolo/launch/processes.hpp>

#include <cstdlib>
#include <string>

/// Runs f() in `processes` processes, in which kolo::shm::world() finds the other ranks. Returns the result of kolo::shm::launch.
template <class F>
int under_launcher(int processes, F f) {
  return kolo::shm::launch(processes, [&](auto& comm) {
    for (const char* outer : {"KOLO_LOCAL_RANK", "KOLO_LOCAL_SIZE", "KOLO_NODE_RANK", "KOLO_NODE_COUNT"})
      ::unsetenv(outer);
    ::setenv("KOLO_RANK", std::to_string(comm.rank()).c_str(), 1);
    ::setenv("KOLO_SIZE", std::to_string(comm.size()).c_str(), 1);
    f();
  });
}

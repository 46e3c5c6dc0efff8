// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The doctor's checks of a machine; the result of each is one line.
#pragma once

#include <string>
#include <vector>

namespace doctor {

struct finding {
  std::string what, answer;
  bool is_well = true;  ///< false: kolo lacks something, or the installation is probably wrong
};

/// The number of cores that this process may run on.
int usable_cores();

/// Cores, shared memory, and system calls that a container may forbid.
std::vector<finding> machine();

/// The installed MPIs, and whether mpicxx and mpiexec of the same suffix belong to the same MPI.
std::vector<finding> message_passing();

/// The CUDA driver and NCCL, if they can be loaded.
std::vector<finding> accelerators();

}  // namespace doctor

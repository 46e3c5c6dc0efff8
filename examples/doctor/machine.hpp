// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the doctor asks of a machine: each question has one line as its answer.
#pragma once

#include <string>
#include <vector>

namespace doctor {

struct finding {
  std::string what, answer;
  bool is_well = true;  ///< no: something that kolo would miss, or that is likely to be a mistake
};

/// Those that this process may run on.
int usable_cores();

/// Cores, memory that processes share, what a container may forbid.
std::vector<finding> machine();

/// Which MPIs are installed, and whether the plain mpicxx and mpiexec are of one kind.
std::vector<finding> message_passing();

/// The driver's library and NCCL's, if they can be loaded.
std::vector<finding> accelerators();

}  // namespace doctor

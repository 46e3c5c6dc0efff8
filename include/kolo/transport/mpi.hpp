// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Forwards to the communicator over MPI.
#pragma once
#include <kolo/mpi/mpi.hpp>

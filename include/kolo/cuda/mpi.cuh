// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI over device views, with the kernels that they need: the header that such programs include.
#pragma once

#include <kolo/cuda/mpi.hpp>
#include <kolo/cuda/reduce.cuh>

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks in one process whose plans are one kernel on each device, and the kernels: the header that such programs
// include.
#pragma once

#include <kolo/cuda/launch_together.cuh>
#include <kolo/cuda/one_kernel.hpp>
#include <kolo/cuda/reduce.cuh>

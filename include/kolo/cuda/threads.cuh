// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks in one process with device views, and the kernels that they need: the header that such programs include.
#pragma once

#include <kolo/cuda/reduce.cuh>
#include <kolo/cuda/threads.hpp>

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NCCL over device views, with the kernels that they need: the header that such programs include.
#pragma once

#include <kolo/cuda/nccl/nccl.hpp>
#include <kolo/cuda/reduce.cuh>

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes of one host with device views, and the kernels that they need: the header that such programs include.
#pragma once

#include <kolo/cuda/reduce.cuh>
#include <kolo/cuda/shm.hpp>

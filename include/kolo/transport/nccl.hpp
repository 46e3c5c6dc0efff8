// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Forwards to the communicator over NCCL.
#pragma once
#include <kolo/cuda/nccl/nccl.hpp>

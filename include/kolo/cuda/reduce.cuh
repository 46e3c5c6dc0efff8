// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions on a device, with the operators and elements of the host: for device communicators, and as calls of their
// own.
#pragma once

#include <kolo/cuda/combine.hpp>
#include <kolo/cuda/launch.cuh>

namespace kolo::inline KOLO_ABI::detail::cuda {

// A kernel that communicators launch and no call names: instantiated here for nvcc's pass for the device.
template __global__ void run_work<copying>(const __grid_constant__ copying work, std::size_t items);

}  // namespace kolo::inline KOLO_ABI::detail::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions on a device, with the operators and elements of the host: what device communicators are made of, and calls
// of their own.
#pragma once

#include <kolo/cuda/combine.hpp>
#include <kolo/cuda/launch.cuh>

namespace kolo::inline KOLO_ABI::detail::cuda {

// What communicators launch by themselves, and no call names: nvcc's look at the file for the device sees it here.
template __global__ void run_work<copying>(const __grid_constant__ copying work, std::size_t items);

}  // namespace kolo::inline KOLO_ABI::detail::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel that runs work on elements, and the function that launches it.
#pragma once

#include <kolo/cuda/runtime.hpp>

#include <algorithm>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Threads walk over the items with the stride of the grid, so that adjacent threads touch adjacent items.
template <class Work>
__global__ void run_work(const __grid_constant__ Work work, std::size_t items) {
  const std::size_t all = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < items; i += all) work(i);
}

template <class Work>
void launch_work(cudaStream_t stream, std::size_t items, const Work& work) {
  constexpr std::size_t threads = 256, most_blocks = 2048;
  if (items == 0) return;
  const auto blocks = unsigned(std::min((items + threads - 1) / threads, most_blocks));
  void* arguments[] = {const_cast<Work*>(&work), &items};
  const auto* const function = reinterpret_cast<const void*>(&run_work<Work>);
  kolo::cuda::check(cudaLaunchKernel(function, dim3(blocks), dim3(threads), arguments, 0, stream), "cudaLaunchKernel");
}

}  // namespace kolo::inline KOLO_ABI::detail::cuda

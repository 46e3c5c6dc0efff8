// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel that runs a program: its blocks run at once, and wait for each other and for other devices by flags.
#pragma once

#include <kolo/cuda/program.hpp>
#include <kolo/cuda/runtime.hpp>

#include <cuda/atomic>

namespace kolo::inline KOLO_ABI::detail::cuda {

inline constexpr unsigned threads_together = 256;

/// Flags in memory that other devices access as well.
struct flags_of_all {
  template <class X>
  using shared = ::cuda::atomic_ref<X, ::cuda::thread_scope_system>;

  KOLO_HOST_DEVICE static std::uint64_t value(std::uint64_t* flag) {
    return shared<std::uint64_t>{*flag}.load(::cuda::memory_order_acquire);
  }
  KOLO_HOST_DEVICE static void add_one(std::uint64_t* flag) {
    shared<std::uint64_t>{*flag}.fetch_add(1, ::cuda::memory_order_release);
  }
  KOLO_HOST_DEVICE static bool is_set(const std::uint32_t* flag) {
    return shared<std::uint32_t>{*const_cast<std::uint32_t*>(flag)}.load(::cuda::memory_order_relaxed) != 0;
  }
};

/// One of the blocks of a rank, as each of its threads sees it.
struct block_of_rank {
  unsigned index, blocks;

  template <class F>
  __device__ void each(F f) const {
    f(std::size_t{index} * blockDim.x + threadIdx.x, std::size_t{blocks} * blockDim.x);
  }
  __device__ void raise(std::uint64_t* flag) const {
    __syncthreads();
    if (threadIdx.x == 0) flags_of_all::add_one(flag);
  }
};

template <class Program>
__global__ void __launch_bounds__(threads_together) run_together(const __grid_constant__ Program all) {
  const unsigned blocks = unsigned(all.p.blocks);
  const block_of_rank block{blockIdx.x % blocks, blocks};
  const rank_part& rank = all.p.parts[blockIdx.x / blocks];
  if (block.index == 0 && threadIdx.x == 0) all.prepare_next(rank);
  for (std::uint32_t k = 0; k < rank.phases; ++k) {
    bool goes_on = true;
    if (threadIdx.x == 0)
      for (unsigned polls = 1; goes_on && !all.template may_begin<flags_of_all>(rank, k); ++polls)
        if (all.p.stop && polls % 1024 == 0)
          goes_on = !flags_of_all::is_set(all.p.stop);  // it lies in host memory, which is slow to read
    if (!__syncthreads_and(goes_on)) return;
    all.run(block, rank, k);
  }
}

template <class Program>
int most_blocks_together(const Program*) {
  cudaFuncAttributes loaded{};
  kolo::cuda::check(cudaFuncGetAttributes(&loaded, run_together<Program>), "cudaFuncGetAttributes");
  int each = 0, processors = 0;
  kolo::cuda::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, run_together<Program>, threads_together, 0),
                    "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  kolo::cuda::check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, kolo::cuda::current_device()),
                    "cudaDeviceGetAttribute");
  return each * processors;
}

template <class Program>
void launch_together(cudaStream_t stream, int blocks, const Program& all) {
  void* argument[] = {const_cast<Program*>(&all)};
  const auto* const function = reinterpret_cast<const void*>(&run_together<Program>);
  kolo::cuda::check(
      cudaLaunchCooperativeKernel(function, dim3(unsigned(blocks)), dim3(threads_together), argument, 0, stream),
      "cudaLaunchCooperativeKernel");
}

}  // namespace kolo::inline KOLO_ABI::detail::cuda

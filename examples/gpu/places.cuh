// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory and execution for a training: on the host, or on this rank's GPU.
#pragma once

#include <kolo/cuda/nccl/nccl.cuh>

#include <algorithm>
#include <memory>
#include <vector>

namespace gpu {

/// Host memory and loops.
class on_host {
 public:
  static constexpr const char* name = "the host";
  using memory = std::vector<float>;

  static memory make(const std::vector<float>& values) { return values; }
  static float* at(memory& m) { return m.data(); }
  static std::span<float> view(memory& m) { return m; }
  template <class C>
  static std::vector<float> values(C&, const memory& m) {
    return m;
  }
  template <class C>
  static auto options(C&) {
    return typename C::options{};
  }

  template <class Work>
  static void run(const Work& work) {
    for (std::size_t i = 0; i < work.items(); ++i) work(i);
  }
};

template <class Work>
__global__ void run_on_gpu(Work work) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < work.items();
       i += std::size_t{gridDim.x} * blockDim.x)
    work(i);
}

/// The current GPU and a stream: only `make` and `values` wait.
class on_gpu {
 public:
  static constexpr const char* name = "GPUs";
  struct memory {
    kolo::cuda::device_memory data;
    std::size_t count;
  };

  memory make(const std::vector<float>& values) const {
    memory m{kolo::cuda::allocate(values.size() * sizeof(float)), values.size()};
    kolo::cuda::copy(m.data.get(), values.data(), values.size() * sizeof(float), stream_);
    stream_.wait();
    return m;
  }
  static float* at(memory& m) { return reinterpret_cast<float*>(m.data.get()); }
  static kolo::device_span<float> view(memory& m) { return {at(m), m.count}; }
  /// Waits with the communicator's deadline, since work on the stream may depend on another rank.
  template <class C>
  std::vector<float> values(C& comm, const memory& m) const {
    std::vector<float> all(m.count);
    comm.first().transport().wait({.stream = stream_});
    kolo::cuda::copy(all.data(), m.data.get(), m.count * sizeof(float), stream_);
    stream_.wait();
    return all;
  }
  template <class C>
  typename C::options options(C&) const {
    return {.stream = stream_};
  }

  template <class Work>
  void run(const Work& work) const {
    constexpr unsigned threads = 128;
    const auto blocks = static_cast<unsigned>(std::min<std::size_t>((work.items() + threads - 1) / threads, 4096));
    void* argument[] = {const_cast<Work*>(&work)};
    const auto* const function = reinterpret_cast<const void*>(&run_on_gpu<Work>);
    kolo::cuda::check(cudaLaunchKernel(function, dim3(blocks), dim3(threads), argument, 0, stream_),
                      "cudaLaunchKernel");
  }

 private:
  kolo::cuda::stream stream_{};
};

}  // namespace gpu

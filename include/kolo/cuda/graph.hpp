// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA graphs: what is put on a stream, captured once and launched again and again.
#pragma once

#include <kolo/cuda/runtime.hpp>

namespace kolo::inline KOLO_ABI::cuda {

/// What was captured, ready to be launched on any stream of its device. It may be destroyed while it runs.
class graph {
 public:
  explicit graph(cudaGraph_t captured) {
    cudaGraphExec_t made = nullptr;
    check(cudaGraphInstantiateWithFlags(&made, captured, 0), "cudaGraphInstantiateWithFlags");
    executable_.reset(made);
  }
  void launch(cudaStream_t s) const { check(cudaGraphLaunch(executable_.get(), s), "cudaGraphLaunch"); }

 private:
  detail::cuda::owned<cudaGraphExec_t, cudaGraphExecDestroy> executable_;
};

/// While one lives, what is put on its stream does not happen, but is noted. In relaxed mode: operations of other
/// communicators progress meanwhile, on this thread as on others, and query events or allocate. The stream is one that
/// was created: the default one cannot be captured.
class capture {
 public:
  explicit capture(cudaStream_t s) {
    check(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    stream_ = s;
  }
  capture(const capture&) = delete;
  capture& operator=(const capture&) = delete;
  ~capture() {
    if (stream_) static_cast<void>(captured());
    static_cast<void>(cudaGetLastError());  // what went wrong here is nobody else's
  }

  graph end() {
    cudaError_t e = cudaSuccess;
    const auto g = captured(&e);
    check(e, "cudaStreamEndCapture");
    return graph{g.get()};
  }

 private:
  using owner = detail::cuda::owned<cudaGraph_t, cudaGraphDestroy>;

  owner captured(cudaError_t* result = nullptr) {
    cudaGraph_t g = nullptr;
    const cudaError_t e = cudaStreamEndCapture(std::exchange(stream_, nullptr), &g);
    if (result) *result = e;
    return owner{g};
  }

  cudaStream_t stream_ = nullptr;
};

}  // namespace kolo::inline KOLO_ABI::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fake CUDA graphs: operations on a capturing stream are recorded, and run when the graph is launched, as late as a stream may.
#pragma once

#include "fake_cuda/runtime.hpp"

// Supports graphs that one stream captures in thread-local or relaxed mode. Calls that a capturing thread must not make fail and invalidate the capture. Events and other
// streams in a capture fail as well.
namespace cuda_double {

/// All graphs and their executables; a handle is the object's address.
inline std::map<const void*, std::shared_ptr<graph_state>> graphs;
inline thread_local bool cannot_capture = false;  ///< this thread's next capture fails to begin
inline thread_local bool loses_capture = false;   ///< this thread's next capture is invalid at its end
inline thread_local int launched = 0;             ///< graphs, by this thread

inline void* keep(std::shared_ptr<graph_state> g) {
  void* const name = g.get();
  graphs[name] = std::move(g);
  return name;
}
inline cudaError_t drop(const void* name) {
  const guard held{the.lock};
  return graphs.erase(name) == 1 ? cudaSuccess : failing(cudaErrorInvalidValue);
}

}  // namespace cuda_double

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  using namespace cuda_double;
  const guard held{the.lock};
  if (!s || mode == cudaStreamCaptureModeGlobal || captured || std::exchange(cannot_capture, false))
    return failing(cudaErrorStreamCaptureUnsupported);
  captured = the.streams.at(s)->capture = std::make_shared<graph_state>();
  captured->is_relaxed = mode == cudaStreamCaptureModeRelaxed;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  using namespace cuda_double;
  const guard held{the.lock};
  const auto ended = std::exchange(the.streams.at(s)->capture, nullptr);
  *graph = nullptr;
  if (!ended || ended != captured) return failing(cudaErrorStreamCaptureWrongThread);
  captured = nullptr;
  if (!ended->is_valid || std::exchange(loses_capture, false)) return failing(cudaErrorStreamCaptureInvalidated);
  *graph = static_cast<cudaGraph_t>(keep(ended));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  using namespace cuda_double;
  const guard held{the.lock};
  *made = static_cast<cudaGraphExec_t>(keep(std::make_shared<graph_state>(*graphs.at(graph))));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return cuda_double::drop(graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cuda_double::drop(graph); }

/// The nodes run on a stream of their own, which begins when `s` has reached the launch; `s` goes on when it has ended.
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s) {
  using namespace cuda_double;
  const guard held{the.lock};
  const auto from = the.streams.at(s);
  if (from->capture) return is_forbidden(), failing(cudaErrorStreamCaptureUnsupported);
  ++launched;
  const auto own = std::make_shared<stream_state>();
  own->device = from->device;
  auto* const name = reinterpret_cast<cudaStream_t>(the.names++ << 8);
  the.streams[name] = own;
  the.put(name, [from, before = from->put] { the.run_to(*from, before); });
  for (const auto& node : graphs.at(graph)->nodes) node(name);
  the.put(s, [own] { the.run_to(*own, own->put); });
  the.streams.erase(name);
  return cudaSuccess;
}

}  // extern "C"

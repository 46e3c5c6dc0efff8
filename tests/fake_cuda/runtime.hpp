// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A fake CUDA runtime on the host: streams run only when a call waits, and the host cannot access device memory.
#pragma once

#include "fake_cuda/machine.hpp"

// Defines the functions that cuda_runtime_api.h declares, so a changed signature does not compile. Include it in one file of a program.

namespace kolo::inline KOLO_ABI::detail::cuda {
/// Replaces launch.cuh's kernel launch; runs the threads backwards, because their order is unspecified.
template <class Work>
void launch_work(cudaStream_t stream, std::size_t items, const Work& work) {
  const cuda_double::guard held{cuda_double::the.lock};
  ++cuda_double::the.launches;
  if (cuda_double::last_error != cudaSuccess)
    throw std::runtime_error{"an error of an earlier call was left for the launch to find"};
  cuda_double::expect_current(stream);
  cuda_double::the.put(stream, [items, work] {
    for (std::size_t i = items; i-- > 0;) work(i);
  });
}
}  // namespace kolo::inline KOLO_ABI::detail::cuda

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  ++cuda_double::the.questions;
  if (cuda_double::the.devices == 0) return cuda_double::failing(cudaErrorInsufficientDriver);  // *count is not written
  *count = cuda_double::the.devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  if (cuda_double::is_to_fail("cudaGetDevice")) return cuda_double::failing(cudaErrorUnknown);
  return *device = cuda_double::device_of_thread, cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return cuda_double::device_of_thread = device, cudaSuccess; }
cudaError_t cudaGetLastError() { return std::exchange(cuda_double::last_error, cudaSuccess); }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  return ++cuda_double::the.questions, *can = cuda_double::the.devices_are_apart ? 0 : 1, cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned) {
  using namespace cuda_double;
  const guard held{the.lock};
  ++the.questions;
  if (the.devices_are_apart) return failing(cudaErrorPeerAccessUnsupported);
  const bool is_new = device != device_of_thread && the.reached.insert({device_of_thread, device}).second;
  return is_new ? cudaSuccess
                : failing(device == device_of_thread ? cudaErrorInvalidDevice : cudaErrorPeerAccessAlreadyEnabled);
}
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorInsufficientDriver ? "CUDA driver version is insufficient for CUDA runtime version" : "an error";
}

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  using namespace cuda_double;
  const guard held{the.lock};
  if (is_unsafe()) return failing(cudaErrorStreamCaptureUnsupported);
  const std::size_t room = (bytes + the.granule() - 1) / the.granule() * the.granule();
  if (the.used + room > machine::arena_bytes) return failing(cudaErrorMemoryAllocation);
  auto* const at = the.arena + the.used;
  the.used += room;
  const eyes open;
  the.protect(PROT_READ | PROT_WRITE);
  the.memory[at] = the.place(at, bytes, device_of_thread);
  std::memset(at, 0xd1, bytes);
  *p = at;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  using namespace cuda_double;
  if (!p) return cudaSuccess;
  while (the.common && !run_everything()) std::this_thread::yield();  // needs other processes to go on
  const guard held{the.lock};
  if (is_unsafe()) return failing(cudaErrorStreamCaptureUnsupported);
  ++the.frees;
  the.run_all();
  {
    const eyes open;
    std::memset(p, 0xd2, the.memory.at(static_cast<std::byte*>(p)).bytes);
  }
  the.give_up(the.memory.at(static_cast<std::byte*>(p)));
  the.memory.erase(static_cast<std::byte*>(p));
  if (the.memory.empty()) the.used = 0;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  using namespace cuda_double;
  const guard held{the.lock};
  if (is_to_fail("cudaHostAlloc")) return failing(cudaErrorUnknown);
  *p = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::memset(*p, 0xd3, bytes);
  ++the.pinned_blocks;
  the.memory[static_cast<std::byte*>(*p)] = {bytes, device_of_thread, cudaMemoryTypeHost};
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  using namespace cuda_double;
  if (is_forked()) return failing(cudaErrorInitializationError);
  const guard held{the.lock};
  ++the.frees;
  the.run_all();
  the.memory.erase(static_cast<std::byte*>(p));
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  using namespace cuda_double;
  const guard held{the.lock};
  if (is_to_fail("cudaPointerGetAttributes")) return failing(cudaErrorUnknown);
  const auto* const found = the.find(p);
  a->type = found ? found->type : the.takes_all_memory ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  a->device = found ? found->device : the.takes_all_memory ? device_of_thread : -2;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  using namespace cuda_double;
  const guard held{the.lock};
  if (is_to_fail("cudaMemcpyAsync")) return failing(cudaErrorUnknown);
  ++the.copies;
  const auto is_away = [&](const void* p) {
    const allocation* const a = the.find(p);
    const int device = the.streams.at(stream)->device;
    return a && a->type == cudaMemoryTypeDevice && a->device != device && !the.reached.contains({device, a->device});
  };
  the.staged += is_away(to) || is_away(from);
  the.put(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream) {
  using namespace cuda_double;
  const guard held{the.lock};
  the.put(stream, [=] { std::memset(to, byte, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  using namespace cuda_double;
  const guard held{the.lock};
  *s = reinterpret_cast<cudaStream_t>(the.names++ << 8);
  the.streams[*s] = std::make_shared<stream_state>();
  the.streams[*s]->device = device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t s, int* device) {
  using namespace cuda_double;
  const guard held{the.lock};
  *device = s ? the.streams.at(s)->device : device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  using namespace cuda_double;
  const guard held{the.lock};
  if (the.reaches(*the.streams.at(s), the.streams.at(s)->put)) the.streams.erase(s);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  using namespace cuda_double;
  for (;; std::this_thread::yield()) {
    const guard held{the.lock};
    const auto state = the.streams.at(s);
    if (state->capture) return is_forbidden(), failing(cudaErrorStreamCaptureUnsupported);
    if (the.reaches(*state, state->put)) return cudaSuccess;
    if (the.spinning > 0) the.run_all();
  }
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  using namespace cuda_double;
  const guard held{the.lock};
  ++the.waits;
  const event_state point = the.events.at(e);
  if (the.streams.at(s)->capture) return is_forbidden(), failing(cudaErrorStreamCaptureIsolation);
  if (point.shared && point.shared->is_destroyed) return failing(cudaErrorInvalidResourceHandle);
  if (point.shared) the.wait_for_any(s, point);
  else if (point.stream) the.put(s, [point] { the.run_to(*point.stream, point.after); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) {
  using namespace cuda_double;
  const guard held{the.lock};
  if (is_to_fail("cudaEventCreateWithFlags")) return failing(cudaErrorUnknown);
  const bool is_shared = (flags & cudaEventInterprocess) != 0;
  if (is_shared && ((flags & cudaEventDisableTiming) == 0 || !the.common)) return failing(cudaErrorInvalidValue);
  *e = reinterpret_cast<cudaEvent_t>(the.names++ << 8);
  the.events[*e] = {.device = device_of_thread,
                    .shared = is_shared ? &the.common->event(the.common->new_event()) : nullptr};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  using namespace cuda_double;
  if (is_forked()) return failing(cudaErrorInitializationError);
  const guard held{the.lock};
  if (const auto& gone = the.events.at(e); gone.shared && !gone.is_imported) gone.shared->is_destroyed = true;
  the.events.erase(e);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  using namespace cuda_double;
  const guard held{the.lock};
  if (is_to_fail("cudaEventRecord")) return failing(cudaErrorUnknown);
  const auto& stream = the.streams.at(s);
  if (stream->capture)
    return is_forbidden(), failing(cudaErrorStreamCaptureUnsupported);  // CUDA could capture it, but kolo does not
  auto& point = the.events.at(e);
  if (point.device != stream->device) return failing(cudaErrorInvalidResourceHandle);
  point.stream = stream;
  point.after = stream->put;
  if (point.shared && point.shared->is_destroyed) return failing(cudaErrorInvalidResourceHandle);
  if (point.shared) the.record_for_all(s, point);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  using namespace cuda_double;
  const guard held{the.lock};
  if (is_unsafe()) return failing(cudaErrorStreamCaptureUnsupported);
  const event_state& point = the.events.at(e);
  if (!point.stream || point.stream->done >= point.after) return cudaSuccess;
  if (!point.stream->work.empty() && !point.stream->is_stuck) the.reaches(*point.stream, point.stream->done + 1);
  return failing(cudaErrorNotReady);
}

}  // extern "C"

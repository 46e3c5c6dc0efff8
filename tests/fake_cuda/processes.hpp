// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fake CUDA runtime between processes: handles of memory and events, and a thread that runs streams while the process is busy.
#pragma once

#include "fake_cuda/runtime.hpp"

#include <cuda.h>

#include <sched.h>

// Each process has its own streams, and runs them as late as CUDA allows: when one of its calls waits, or when another process waits for their results. An
// opened allocation has another address than at its owner; freed memory stays accessible to the processes that have it open; an address that is allocated again
// is other memory.
namespace cuda_double {

/// Connects a child process with the common state, and runs its streams when another process waits for them.
class life {
 public:
  explicit life(common_ground& ground) {
    the.common = &ground;
    the.process = ::getpid();
    runner_ = std::thread{[this, &ground] {
      while (!ends_) {
        const auto heard = ground.epoch();
        if (!run_what_is_wanted()) ::sched_yield();
        else if (!ends_) ground.sleep(heard);
      }
    }};
  }
  life(const life&) = delete;
  ~life() {
    ends_ = true;
    the.common->ring();
    runner_.join();
  }

 private:
  static bool run_what_is_wanted() {
    const guard held{the.lock};
    bool all = true;
    for (const auto& [shared, e] : the.recorded)
      if (const auto n = shared->wanted.load(); n != 0 && n <= e.number && !shared->has_passed(n))
        all &= the.reaches(*e.stream, e.after);
    return all;
  }
  std::atomic<bool> ends_{false};
  std::thread runner_{};
};

struct handle_of_memory {
  ::pid_t owner;
  std::uint32_t number;
  std::uint64_t at;
  std::size_t bytes;
  int device;
};
struct handle_of_event {
  ::pid_t owner;
  std::uint32_t number;
};
static_assert(sizeof(handle_of_memory) <= sizeof(cudaIpcMemHandle_t) &&
              sizeof(handle_of_event) <= sizeof(cudaIpcEventHandle_t));

template <class T, class Handle>
T read(const Handle& h) {
  T t;
  std::memcpy(&t, h.reserved, sizeof t);
  return t;
}
template <class T, class Handle>
void write(Handle& h, const T& t) {
  std::memset(h.reserved, 0, sizeof h.reserved);
  std::memcpy(h.reserved, &t, sizeof t);
}

}  // namespace cuda_double

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* p) {
  using namespace cuda_double;
  const guard held{the.lock};
  const auto found = the.memory.find(static_cast<std::byte*>(p));
  if (found == the.memory.end() || found->second.type != cudaMemoryTypeDevice || found->second.is_of_a_pool)
    return failing(cudaErrorInvalidValue);
  const allocation& a = found->second;
  write(*handle, handle_of_memory{::getpid(), a.number, a.at, a.bytes, a.device});
  ++the.questions;
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** p, cudaIpcMemHandle_t handle, unsigned flags) {
  using namespace cuda_double;
  if (the.before_opening) the.before_opening();
  const guard held{the.lock};
  const auto h = read<handle_of_memory>(handle);
  if (flags != cudaIpcMemLazyEnablePeerAccess) return failing(cudaErrorInvalidValue);
  if (h.owner == ::getpid()) return failing(cudaErrorDeviceUninitialized);
  if (the.common->allocation(h.number).is_freed) return failing(cudaErrorMapBufferObjectFailed);
  if (the.devices_are_apart && h.device != device_of_thread) return failing(cudaErrorPeerAccessUnsupported);
  ++the.questions;
  for (auto& [at, w] : the.windows)
    if (w.number == h.number && w.device == device_of_thread) return ++w.openings, *p = at, cudaSuccess;
  const auto room = (h.bytes + 4095) / 4096 * 4096;
  void* const at = ::mmap(nullptr, room, the.open > 0 ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED | MAP_NORESERVE,
                          the.common->file(), static_cast<off_t>(h.at));
  if (at == MAP_FAILED) return failing(cudaErrorMapBufferObjectFailed);
  the.windows[static_cast<std::byte*>(at)] = {room, h.number, 1, device_of_thread};
  ++the.common->allocation(h.number).openings;
  return *p = at, cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* p) {
  using namespace cuda_double;
  const guard held{the.lock};
  const auto found = the.windows.find(static_cast<std::byte*>(p));
  if (found == the.windows.end() || found->second.device != device_of_thread) return failing(cudaErrorInvalidValue);
  if (--found->second.openings > 0) return cudaSuccess;
  --the.common->allocation(found->second.number).openings;
  ::munmap(p, found->second.bytes);
  the.windows.erase(found);
  return cudaSuccess;
}
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t e) {
  using namespace cuda_double;
  const guard held{the.lock};
  const auto& point = the.events.at(e);
  if (!point.shared || point.is_imported) return failing(cudaErrorInvalidResourceHandle);
  write(*handle, handle_of_event{::getpid(), static_cast<std::uint32_t>(point.shared - &the.common->event(0))});
  return cudaSuccess;
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* e, cudaIpcEventHandle_t handle) {
  using namespace cuda_double;
  const guard held{the.lock};
  const auto h = read<handle_of_event>(handle);
  if (h.owner == ::getpid() || h.owner == 0) return failing(cudaErrorInvalidValue);
  *e = reinterpret_cast<cudaEvent_t>(the.names++ << 8);
  the.events[*e] = {.device = device_of_thread, .shared = &the.common->event(h.number), .is_imported = true};
  return cudaSuccess;
}

CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute* what, void** into, CUdeviceptr address) {
  using namespace cuda_double;
  const guard held{the.lock};
  auto next = the.memory.upper_bound(reinterpret_cast<const std::byte*>(address));
  const bool is_known = next != the.memory.begin() && the.find(reinterpret_cast<const void*>(address));
  if (is_known) --next;
  const auto say = [](void* to, auto value) { std::memcpy(to, &value, sizeof value); };
  for (unsigned i = 0; i < n; ++i) switch (what[i]) {
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        say(into[i], is_known ? std::uint64_t{next->second.number} + 1 : std::uint64_t{0});
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: say(into[i], is_known ? next->first : nullptr); break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE: say(into[i], is_known ? next->second.bytes : std::size_t{0}); break;
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        say(into[i], is_known && next->second.type == cudaMemoryTypeDevice && !next->second.is_of_a_pool);
        break;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  return CUDA_SUCCESS;
}
#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** found, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
  *found =
      std::strcmp(symbol, "cuPointerGetAttributes") == 0 ? reinterpret_cast<void*>(&cuPointerGetAttributes) : nullptr;
  return cudaSuccess;
}
#endif

}  // extern "C"

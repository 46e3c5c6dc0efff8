// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A double of the CUDA runtime on the host: streams that do nothing until somebody waits, and device memory that the host cannot touch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <sys/mman.h>

// It defines the functions that cuda_runtime_api.h declares, so one that has another signature does not compile. One file of a program includes it.
//
// Whatever can happen later, happens as late as it may: an operation on a stream runs when a call waits for it, or one at a time when a call asks whether it
// has run. So a synchronisation that is missing is seen as bytes that are not there yet. Memory of a device is open only while such operations run.
namespace cuda_double {

struct stream_state {
  std::deque<std::function<void()>> work;
  std::uint64_t put = 0, done = 0;  ///< operations
  bool is_stuck = false;            ///< nobody who only asks gets it to go on
};
struct event_state {
  std::shared_ptr<stream_state> stream;  ///< null: never recorded
  std::uint64_t after = 0;               ///< so many operations of it
};
struct allocation {
  std::size_t bytes;
  int device;
  cudaMemoryType type;
};

/// All there is, behind one lock.
struct machine {
  static constexpr std::size_t arena_bytes = std::size_t{1} << 28;
  std::recursive_mutex lock;
  int devices = 1;
  bool takes_all_memory = false;  ///< memory of the host counts as a device's: for tests that were written for the host
  std::map<const std::byte*, allocation> memory;
  std::map<cudaStream_t, std::shared_ptr<stream_state>> streams;
  std::map<cudaEvent_t, event_state> events;
  std::byte* arena = nullptr;
  std::size_t used = 0, launches = 0, copies = 0, pinned_blocks = 0;
  std::uintptr_t names = 1;
  int open = 0;

  machine() {
    arena = static_cast<std::byte*>(::mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    streams[nullptr] = std::make_shared<stream_state>();
  }
  void protect(int how) const { ::mprotect(arena, (used + 4095) / 4096 * 4096, how); }

  void step(stream_state& s) {
    const auto f = std::move(s.work.front());
    s.work.pop_front();
    if (open++ == 0) protect(PROT_READ | PROT_WRITE);
    f();
    if (--open == 0) protect(PROT_NONE);
    ++s.done;
  }
  void run_to(stream_state& s, std::uint64_t after) {
    while (s.done < after && !s.work.empty()) step(s);
  }
  void run_all() {
    for (auto& [name, s] : streams) run_to(*s, s->put);
  }
  void put(cudaStream_t name, std::function<void()> f) {
    auto& s = *streams.at(name);
    s.work.push_back(std::move(f));
    ++s.put;
  }
  const allocation* find(const void* p) const {
    auto next = memory.upper_bound(static_cast<const std::byte*>(p));
    if (next == memory.begin()) return nullptr;
    --next;
    return static_cast<const std::byte*>(p) < next->first + next->second.bytes ? &next->second : nullptr;
  }
};
inline machine the;
inline thread_local int device_of_thread = 0;

using guard = std::lock_guard<std::recursive_mutex>;

/// While one lives, this thread sees the memory of devices, as a wire does that reaches them.
struct eyes {
  eyes() : held{the.lock} {
    if (the.open++ == 0) the.protect(PROT_READ | PROT_WRITE);
  }
  eyes(const eyes&) = delete;
  ~eyes() {
    if (--the.open == 0) the.protect(PROT_NONE);
  }
  guard held;
};

}  // namespace cuda_double

namespace kolo::inline v0::cuda::detail {
/// What launch.cuh does with a kernel; backwards, because the order of threads is nobody's.
template <class Work>
void launch(cudaStream_t stream, std::size_t items, const Work& work) {
  const cuda_double::guard held{cuda_double::the.lock};
  ++cuda_double::the.launches;
  cuda_double::the.put(stream, [items, work] {
    for (std::size_t i = items; i-- > 0;) work(i);
  });
}
}  // namespace kolo::inline v0::cuda::detail

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (cuda_double::the.devices == 0) return cudaErrorInsufficientDriver;  // nothing is written
  *count = cuda_double::the.devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = cuda_double::device_of_thread, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return cuda_double::device_of_thread = device, cudaSuccess; }
const char* cudaGetErrorString(cudaError_t e) { return e == cudaErrorInsufficientDriver ? "CUDA driver version is insufficient for CUDA runtime version" : "an error"; }

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  using namespace cuda_double;
  const guard held{the.lock};
  const std::size_t room = (bytes + 255) / 256 * 256;
  if (the.used + room > machine::arena_bytes) return cudaErrorMemoryAllocation;
  auto* const at = the.arena + the.used;
  the.used += room;
  const eyes open;
  the.protect(PROT_READ | PROT_WRITE);
  std::memset(at, 0xd1, bytes);
  the.memory[at] = {bytes, device_of_thread, cudaMemoryTypeDevice};
  *p = at;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  using namespace cuda_double;
  if (!p) return cudaSuccess;
  const guard held{the.lock};
  the.run_all();
  {
    const eyes open;
    std::memset(p, 0xd2, the.memory.at(static_cast<std::byte*>(p)).bytes);
  }
  the.memory.erase(static_cast<std::byte*>(p));
  if (the.memory.empty()) the.used = 0;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  using namespace cuda_double;
  const guard held{the.lock};
  *p = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::memset(*p, 0xd3, bytes);
  ++the.pinned_blocks;
  the.memory[static_cast<std::byte*>(*p)] = {bytes, device_of_thread, cudaMemoryTypeHost};
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  using namespace cuda_double;
  const guard held{the.lock};
  the.run_all();
  the.memory.erase(static_cast<std::byte*>(p));
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  using namespace cuda_double;
  const guard held{the.lock};
  const auto* const found = the.find(p);
  a->type = found ? found->type : the.takes_all_memory ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  a->device = found ? found->device : the.takes_all_memory ? device_of_thread : -2;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  using namespace cuda_double;
  const guard held{the.lock};
  ++the.copies;
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
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  using namespace cuda_double;
  const guard held{the.lock};
  the.run_to(*the.streams.at(s), the.streams.at(s)->put);
  the.streams.erase(s);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  using namespace cuda_double;
  const guard held{the.lock};
  the.run_to(*the.streams.at(s), the.streams.at(s)->put);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  using namespace cuda_double;
  const guard held{the.lock};
  const event_state point = the.events.at(e);
  if (point.stream) the.put(s, [point] { the.run_to(*point.stream, point.after); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  using namespace cuda_double;
  const guard held{the.lock};
  *e = reinterpret_cast<cudaEvent_t>(the.names++ << 8);
  the.events[*e] = {};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  using namespace cuda_double;
  const guard held{the.lock};
  the.events.erase(e);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  using namespace cuda_double;
  const guard held{the.lock};
  const auto& stream = the.streams.at(s);
  the.events.at(e) = {stream, stream->put};
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  using namespace cuda_double;
  const guard held{the.lock};
  const event_state& point = the.events.at(e);
  if (!point.stream || point.stream->done >= point.after) return cudaSuccess;
  if (!point.stream->work.empty() && !point.stream->is_stuck) the.step(*point.stream);
  return cudaErrorNotReady;
}

}  // extern "C"

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
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>

// It defines the functions that cuda_runtime_api.h declares, so one that has another signature does not compile. One file of a program includes it.
//
// Whatever can happen later, happens as late as it may: an operation on a stream runs when a call waits for it, or one at a time when a call asks whether it
// has run. So a synchronisation that is missing is seen as bytes that are not there yet. Memory of a device is open only while such operations run.
namespace cuda_double {

/// Thrown by an operation whose other side is not there yet.
struct not_yet {};

/// What a stream captures: each node puts itself on a stream when the graph is launched.
struct graph_state {
  std::vector<std::function<void(cudaStream_t)>> nodes;
  bool is_valid = true;
};
struct stream_state {
  std::deque<std::function<void()>> work;
  std::uint64_t put = 0, done = 0;  ///< operations
  bool is_stuck = false;            ///< nobody who only asks gets it to go on
  int device = 0;
  std::shared_ptr<graph_state> capture;  ///< null: what is put there runs
};
struct event_state {
  std::shared_ptr<stream_state> stream{};  ///< null: never recorded
  std::uint64_t after = 0;                 ///< so many operations of it
  int device = 0;
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
  bool devices_are_apart = false;            ///< none can touch another's memory
  std::set<std::pair<int, int>> reached;     ///< the memory of the second from the first
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
    auto f = std::move(s.work.front());
    s.work.pop_front();
    if (open++ == 0) protect(PROT_READ | PROT_WRITE);
    bool has_run = true;
    try {
      f();
    } catch (const not_yet&) {
      s.work.push_front(std::move(f));
      has_run = false;
    }
    if (--open == 0) protect(PROT_NONE);
    if (!has_run) throw not_yet{};
    ++s.done;
  }
  void run_to(stream_state& s, std::uint64_t after) {
    while (s.done < after && !s.work.empty()) step(s);
  }
  /// False: it cannot go on before somebody else comes.
  bool reaches(stream_state& s, std::uint64_t after) {
    try {
      run_to(s, after);
      return true;
    } catch (const not_yet&) {
      return false;
    }
  }
  void run_all() {
    for (auto& [name, s] : streams) reaches(*s, s->put);
  }
  void put(cudaStream_t name, std::function<void()> f) {
    auto& s = *streams.at(name);
    if (s.capture) return s.capture->nodes.push_back([this, f](cudaStream_t to) { put(to, f); });
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
inline thread_local cudaError_t last_error = cudaSuccess;
inline thread_local std::shared_ptr<graph_state> captured;  ///< by this thread, now; see graphs.hpp

/// What must not be called by a thread that captures; the capture is lost then.
inline bool is_forbidden() {
  if (captured) captured->is_valid = false;
  return captured != nullptr;
}

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
  if (cuda_double::last_error != cudaSuccess) throw std::runtime_error{"an error of an earlier call was left for the launch to find"};
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
cudaError_t cudaGetLastError() { return std::exchange(cuda_double::last_error, cudaSuccess); }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = cuda_double::the.devices_are_apart ? 0 : 1, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned) {
  using namespace cuda_double;
  const guard held{the.lock};
  const bool is_new = device != device_of_thread && the.reached.insert({device_of_thread, device}).second;
  return is_new ? cudaSuccess : last_error = device == device_of_thread ? cudaErrorInvalidDevice : cudaErrorPeerAccessAlreadyEnabled;
}
const char* cudaGetErrorString(cudaError_t e) { return e == cudaErrorInsufficientDriver ? "CUDA driver version is insufficient for CUDA runtime version" : "an error"; }

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  using namespace cuda_double;
  const guard held{the.lock};
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
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
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
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
    if (state->capture) return is_forbidden(), cudaErrorStreamCaptureUnsupported;
    if (the.reaches(*state, state->put)) return cudaSuccess;
  }
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  using namespace cuda_double;
  const guard held{the.lock};
  const event_state point = the.events.at(e);
  if (the.streams.at(s)->capture) return is_forbidden(), cudaErrorStreamCaptureIsolation;
  if (point.stream) the.put(s, [point] { the.run_to(*point.stream, point.after); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  using namespace cuda_double;
  const guard held{the.lock};
  *e = reinterpret_cast<cudaEvent_t>(the.names++ << 8);
  the.events[*e] = {.device = device_of_thread};
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
  if (stream->capture) return is_forbidden(), cudaErrorStreamCaptureUnsupported;  // could be captured, and is not by us
  auto& point = the.events.at(e);
  if (point.device != (s ? stream->device : device_of_thread)) return cudaErrorInvalidResourceHandle;
  point.stream = stream;
  point.after = stream->put;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  using namespace cuda_double;
  const guard held{the.lock};
  const event_state& point = the.events.at(e);
  if (!point.stream || point.stream->done >= point.after) return cudaSuccess;
  if (!point.stream->work.empty() && !point.stream->is_stuck) the.reaches(*point.stream, point.stream->done + 1);
  return cudaErrorNotReady;
}

}  // extern "C"

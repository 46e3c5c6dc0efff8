// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CUDA runtime in one place: its calls with errors as exceptions, and owners of its resources.
#pragma once

#include <kolo/core/error.hpp>

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

namespace kolo::inline KOLO_ABI::cuda {

/// Returns `e` and clears the runtime's last error, which the program's next launch would report again.
inline cudaError_t forgotten(cudaError_t e) {
  if (e != cudaSuccess) static_cast<void>(cudaGetLastError());
  return e;
}

/// Throws kolo::error for anything but success: `errc::system`, or `errc::out_of_resources` where memory is short.
inline void check(cudaError_t e, const char* function, const std::string& more = {}) {
  if (forgotten(e) == cudaSuccess) return;
  const bool is_short = e == cudaErrorMemoryAllocation;
  throw error{is_short ? errc::out_of_resources : errc::system,
              std::string{function} + ": " + cudaGetErrorString(e) + more};
}

/// Options of one call on device views.
struct call_options {
  std::chrono::nanoseconds timeout{};  ///< of this call; 0: the communicator's
  /// What was put there before is waited for; the result is there for what is put there afterwards.
  cudaStream_t stream = nullptr;
};

/// Devices that this process sees; 0 where there is no driver either.
inline int devices() {
  int count = 0;
  return forgotten(cudaGetDeviceCount(&count)) == cudaSuccess ? count : 0;  // without a driver nothing is written
}

/// The calling thread's device.
inline int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

/// Makes device `local_rank` the calling thread's: one for each rank of a host. Too few devices are an error that
/// reports their number; ranks that share devices call `set_device(comm.local_rank() % kolo::cuda::devices())`.
inline int set_device(int local_rank) {
  int count = 0;
  const cudaError_t e = forgotten(cudaGetDeviceCount(&count));
  if (e != cudaSuccess || local_rank < 0 || local_rank >= count) {
    if (e != cudaSuccess) count = 0;
    const char* const mask = std::getenv("CUDA_VISIBLE_DEVICES");
    std::string message = "local rank " + std::to_string(local_rank) + " would take device " +
                          std::to_string(local_rank) + ", and this process sees " + std::to_string(count) +
                          (count == 1 ? " device" : " devices");
    if (e != cudaSuccess) message += std::string{" ("} + cudaGetErrorString(e) + ")";
    if (mask) message += std::string{" (CUDA_VISIBLE_DEVICES="} + mask + ")";
    throw error{errc::invalid_argument, message};
  }
  check(cudaSetDevice(local_rank), "cudaSetDevice");
  return local_rank;
}

/// The address's kind of memory, and its device.
inline cudaPointerAttributes attributes_of(const void* p) {
  cudaPointerAttributes a{};
  check(cudaPointerGetAttributes(&a, p), "cudaPointerGetAttributes");
  return a;
}

/// Whether work on each device that this process sees can access the memory of all the others.
inline bool devices_reach_each_other() {
  for (int a = 0, count = devices(); a < count; ++a)
    for (int b = 0; b < count; ++b) {
      int can = 1;
      if (a != b) check(cudaDeviceCanAccessPeer(&can, a, b), "cudaDeviceCanAccessPeer");
      if (can == 0) return false;
    }
  return true;
}
/// Lets work on the current device access the memory of another one. Returns why it cannot.
inline cudaError_t reach(int device) {
  const cudaError_t e = forgotten(cudaDeviceEnablePeerAccess(device, 0));
  return e == cudaErrorPeerAccessAlreadyEnabled ? cudaSuccess : e;
}

/// The stream's device; of the default stream, the current one. -1 before CUDA 12.8, which cannot report it.
inline int device_of([[maybe_unused]] cudaStream_t s) {
  int device = -1;
#if CUDART_VERSION >= 12080
  check(cudaStreamGetDevice(s, &device), "cudaStreamGetDevice");
#endif
  return device;
}

// Work on a stream happens later, in the order of the calls; memory that is copied must stay valid until then.
// `cudaMemcpyDefault`: CUDA knows from the addresses in whose memory they lie.

/// Copies `bytes` from one address to another, each of the host or of a device, in the order of the stream.
inline void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}
/// Sets `bytes` to `byte`, in the order of the stream.
inline void fill(void* to, int byte, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0) check(cudaMemsetAsync(to, byte, bytes, stream), "cudaMemsetAsync");
}
/// Waits until all work on the stream has completed.
inline void wait(cudaStream_t stream) { check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

}  // namespace kolo::inline KOLO_ABI::cuda

namespace kolo::inline KOLO_ABI::detail::cuda {
/// Deleters ignore errors: those of earlier work, which has reported them, and the runtime's at the end of the process.
template <auto Destroy>
struct destroyed_by {
  void operator()(auto* p) const { static_cast<void>(Destroy(p)); }
};
template <class Handle, auto Destroy>
using owned = std::unique_ptr<std::remove_pointer_t<Handle>, destroyed_by<Destroy>>;

/// While it lives, `device` is the calling thread's; then the earlier one is again. -1: it changes nothing.
class current_device_scope {
 public:
  explicit current_device_scope(int device) {
    if (device < 0) return;
    if (const int now = kolo::cuda::current_device(); now != device) {
      kolo::cuda::check(cudaSetDevice(device), "cudaSetDevice");
      before_ = now;
    }
  }
  current_device_scope(const current_device_scope&) = delete;
  current_device_scope& operator=(const current_device_scope&) = delete;
  ~current_device_scope() {
    if (before_ >= 0) static_cast<void>(kolo::cuda::forgotten(cudaSetDevice(before_)));
  }

 private:
  int before_ = -1;
};
}  // namespace kolo::inline KOLO_ABI::detail::cuda

namespace kolo::inline KOLO_ABI::cuda {

/// Memory of the current device. Freeing it waits until the device has finished with it.
using device_memory = detail::cuda::owned<std::byte*, cudaFree>;
/// Allocates `bytes` of the current device's memory; at least one. Errors  out_of_resources: there is not enough;
/// system: cudaMalloc refuses for another reason.
inline device_memory allocate(std::size_t bytes) {
  void* p = nullptr;
  check(cudaMalloc(&p, bytes > 0 ? bytes : 1), "cudaMalloc", " (" + std::to_string(bytes) + " bytes)");
  return device_memory{static_cast<std::byte*>(p)};
}

/// Memory of the host that devices access directly.
using pinned_memory = detail::cuda::owned<std::byte*, cudaFreeHost>;
/// Allocates `bytes` of pinned memory; at least one. Errors  out_of_resources: there is not enough; system:
/// cudaHostAlloc refuses for another reason.
inline pinned_memory allocate_pinned(std::size_t bytes) {
  void* p = nullptr;
  check(cudaHostAlloc(&p, bytes > 0 ? bytes : 1, cudaHostAllocPortable), "cudaHostAlloc",
        " (" + std::to_string(bytes) + " bytes of pinned memory)");
  return pinned_memory{static_cast<std::byte*>(p)};
}

/// A stream of the current device that does not wait for the default one.
class stream {
 public:
  stream() {
    cudaStream_t s = nullptr;
    check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    stream_.reset(s);
  }
  cudaStream_t get() const { return stream_.get(); }
  operator cudaStream_t() const { return get(); }  // NOLINT: usable wherever a cudaStream_t is
  void wait() const { cuda::wait(get()); }

 private:
  detail::cuda::owned<cudaStream_t, cudaStreamDestroy> stream_;
};

/// A point on a stream of the current device.
class event {
 public:
  explicit event(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t e = nullptr;
    check(cudaEventCreateWithFlags(&e, flags), "cudaEventCreateWithFlags");
    event_.reset(e);
  }
  /// An event that another process has made with cudaEventInterprocess: both may record it and wait for it.
  explicit event(const cudaIpcEventHandle_t& theirs) {
    cudaEvent_t e = nullptr;
    check(cudaIpcOpenEventHandle(&e, theirs), "cudaIpcOpenEventHandle");
    event_.reset(e);
  }
  cudaIpcEventHandle_t handle() const {
    cudaIpcEventHandle_t h{};
    check(cudaIpcGetEventHandle(&h, event_.get()), "cudaIpcGetEventHandle");
    return h;
  }
  void record(cudaStream_t s) const { check(cudaEventRecord(event_.get(), s), "cudaEventRecord"); }
  /// Whether the stream has passed it; true where it was never recorded.
  bool has_passed() const {
    const cudaError_t e = forgotten(cudaEventQuery(event_.get()));
    if (e != cudaErrorNotReady) check(e, "cudaEventQuery");
    return e == cudaSuccess;
  }
  /// Work that is put on `s` from now on happens after it.
  void make_wait(cudaStream_t s) const { check(cudaStreamWaitEvent(s, event_.get(), 0), "cudaStreamWaitEvent"); }

 private:
  detail::cuda::owned<cudaEvent_t, cudaEventDestroy> event_;
};

}  // namespace kolo::inline KOLO_ABI::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device memory between processes of one host: what one process exports, and what another one has open.
#pragma once

#include <kolo/cuda/runtime.hpp>

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// The allocation that contains an address. CUDA's handles are for whole allocations, and only the driver knows where
/// one begins.
struct allocation_range {
  std::uint64_t id = 0;  ///< no other allocation of this process ever has it
  std::uint64_t first = 0, bytes = 0;
  bool is_exportable = false;  ///< to other processes, by cudaIpcGetMemHandle
};

/// Finds a function of the driver through the runtime: kolo is not linked with the driver.
inline auto find_pointer_attributes() {
  void* found = nullptr;
#if CUDART_VERSION >= 12050
  kolo::cuda::check(cudaGetDriverEntryPointByVersion("cuPointerGetAttributes", &found, 7000, cudaEnableDefault),
                    "cudaGetDriverEntryPointByVersion");
#else
  kolo::cuda::check(cudaGetDriverEntryPoint("cuPointerGetAttributes", &found, cudaEnableDefault),
                    "cudaGetDriverEntryPoint");
#endif
  if (!found) throw error{errc::system, "the driver has no cuPointerGetAttributes"};
  return reinterpret_cast<decltype(&cuPointerGetAttributes)>(found);
}

inline allocation_range range_of(const std::byte* p) {
  static const auto ask = find_pointer_attributes();
  allocation_range r;
  int is_capable = 0;
  CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
  void* into[] = {&r.id, &r.first, &r.bytes, &is_capable};
  if (const auto e = ask(4, what, into, reinterpret_cast<std::uintptr_t>(p)); e != CUDA_SUCCESS)
    throw error{errc::system, "cuPointerGetAttributes: error " + std::to_string(int(e))};
  r.is_exportable = is_capable != 0 && r.bytes > 0;
  return r;
}

inline constexpr const char* not_exportable =
    "memory on a device cannot be shown to other processes unless cudaMalloc has allocated it: not that of pools "
    "(cudaMallocAsync), managed memory, or what "
    "lies at addresses that the program has mapped (PyTorch's expandable_segments)";

inline constexpr const char* spans_allocations =
    "a contiguous view lies in two allocations, and memory on a device is shown to other processes one allocation at a "
    "time: a bucket of two views takes both";

/// An address in the form that another process can open; `bytes` 0: null.
struct exported_address {
  std::uint64_t id = 0, first = 0, bytes = 0, offset = 0;
  cudaIpcMemHandle_t handle{};
};

/// Exports memory of this process. Asks for a handle once per allocation, and keeps those of the last 64.
class exported_memory {
 public:
  exported_address export_address(const std::byte* p, std::size_t bytes) {
    if (!p || bytes == 0) return {};
    const auto range = range_of(p);
    if (!range.is_exportable) throw error{errc::invalid_argument, not_exportable};
    if (std::uint64_t(p - reinterpret_cast<const std::byte*>(range.first)) + bytes > range.bytes)
      throw error{errc::invalid_argument, spans_allocations};
    exported_address t{range.id, range.first, range.bytes, reinterpret_cast<std::uintptr_t>(p) - range.first, {}};
    for (const exported_address& old : known_)
      if (old.id == t.id) return t.handle = old.handle, t;
    kolo::cuda::check(cudaIpcGetMemHandle(&t.handle, reinterpret_cast<void*>(range.first)),
                      "cudaIpcGetMemHandle");  // NOLINT: the driver gives addresses as numbers
    if (known_.size() == most) known_.erase(known_.begin());
    return known_.emplace_back(t);
  }

 private:
  static constexpr std::size_t most = 64;
  std::vector<exported_address> known_;
};

/// Memory of one other process. An allocation is opened once; its id distinguishes it from a later one at the same
/// address.
class opened_memory {
 public:
  /// That address in this process. Nothing: an allocation that was freed is still open there, and work on `stream` may
  /// touch it. It is closed first, when the stream has passed that work; so are allocations not used for long.
  std::optional<std::byte*> open(const exported_address& t, cudaStream_t stream) {
    if (t.bytes == 0) return nullptr;
    if (const auto known = std::find_if(all_.begin(), all_.end(), [&](const one& o) { return o.what.id == t.id; });
        known != all_.end()) {
      known->last_use.reset();
      std::rotate(known, known + 1, all_.end());  // the last is the one that was used last
      return all_.back().here + t.offset;
    }
    if (!close_freed(t, stream)) return std::nullopt;
    void* here = nullptr;
    kolo::cuda::check(cudaIpcOpenMemHandle(&here, t.handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle",
                      " (memory that another process has on a device, which this one cannot reach)");
    all_.push_back({t, static_cast<std::byte*>(here), {}});
    return all_.back().here + t.offset;
  }
  void close_all() {
    while (!all_.empty()) close(all_.begin());
  }

 private:
  static constexpr std::size_t most = 64;
  struct one {
    exported_address what;
    std::byte* here;
    std::optional<kolo::cuda::event> last_use;  ///< set when it is to be closed
  };

  /// Closes allocations that overlap the new one: their owner has freed them. False: one of them is not closed yet. Of
  /// the others, the least recently used beyond 64 are closed when the stream has passed their last use.
  bool close_freed(const exported_address& t, cudaStream_t stream) {
    for (std::size_t i = 0; i < all_.size();) {
      one& o = all_[i];
      const bool is_freed = o.what.first < t.first + t.bytes && t.first < o.what.first + o.what.bytes;
      if (!is_freed && all_.size() - i < most) {
        ++i;
        continue;
      }
      if (!o.last_use) o.last_use.emplace().record(stream);
      if (o.last_use->has_passed()) close(all_.begin() + std::ptrdiff_t(i));
      else if (is_freed) return false;
      else ++i;
    }
    return true;
  }
  void close(std::vector<one>::iterator o) {
    auto* const here = o->here;
    all_.erase(o);
    kolo::cuda::check(cudaIpcCloseMemHandle(here), "cudaIpcCloseMemHandle");
  }

  std::vector<one> all_;
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

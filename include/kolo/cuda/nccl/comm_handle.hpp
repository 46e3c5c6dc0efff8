// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NCCL's communicators as objects, with the graphs that refer to them.
#pragma once

#include <kolo/cuda/graph.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nccl.h>

namespace kolo::inline KOLO_ABI::detail::cuda {

constexpr bool is_fine(ncclResult_t r) { return r == ncclSuccess || r == ncclInProgress; }

/// NCCL's description of an error; `comm` may be null.
inline std::string words_for(const char* call, ncclResult_t r, ncclComm_t comm) {
  std::string message = std::string{call} + ": " + ncclGetErrorString(r);
  const char* const last = ncclGetLastError(comm);
  return last && *last ? message + " (" + last + ")" : message;
}

inline ncclConfig_t without_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

/// A graph that a plan launches, valid while the communicator lives: empty afterwards.
using kept_graph = std::shared_ptr<std::optional<kolo::cuda::graph>>;

/// An NCCL communicator: our own, aborted unless it was destroyed; or the caller's, and left alone. NCCL's destruction
/// waits for graphs that hold calls of the communicator, so they are destroyed first.
class handle {
 public:
  handle() = default;
  handle(ncclComm_t comm, bool is_ours) : comm_{comm}, is_ours_{is_ours} {}
  handle(handle&& other) noexcept : comm_{std::exchange(other.comm_, nullptr)}, is_ours_{other.is_ours_} {}
  handle& operator=(handle&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(is_ours_, other.is_ours_);
    return *this;
  }
  ~handle() { abort(); }

  ncclComm_t get() const { return comm_; }
  bool is_ours() const { return is_ours_; }
  void abort() noexcept {
    end_graphs();
    if (ncclComm_t c = std::exchange(comm_, nullptr); c && is_ours_) static_cast<void>(ncclCommAbort(c));
  }
  /// Called before `destroy`, which would wait for other ranks without a limit; NCCL progresses the finalization by
  /// itself.
  ncclResult_t finalize() noexcept {
    end_graphs();
    return ncclCommFinalize(comm_);
  }
  void destroy() noexcept {
    if (ncclComm_t c = std::exchange(comm_, nullptr); c && is_ours_) static_cast<void>(ncclCommDestroy(c));
  }

  void begin_capture(cudaStream_t s) { capture_.emplace(s); }
  void drop_capture() noexcept { capture_.reset(); }
  kept_graph end_capture() {
    std::erase_if(graphs_, [](const auto& g) { return g.expired(); });
    auto made = std::make_shared<std::optional<kolo::cuda::graph>>(capture_.value().end());
    capture_.reset();
    graphs_.push_back(made);
    return made;
  }

 private:
  void end_graphs() noexcept {
    drop_capture();
    for (const auto& g : graphs_)
      if (const kept_graph alive = g.lock()) alive->reset();
    graphs_.clear();
  }

  ncclComm_t comm_ = nullptr;
  bool is_ours_ = true;
  std::optional<kolo::cuda::capture> capture_{};
  std::vector<std::weak_ptr<std::optional<kolo::cuda::graph>>> graphs_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

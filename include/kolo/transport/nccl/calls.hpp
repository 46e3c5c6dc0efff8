// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NCCL's communicators as objects, and its element types and operators by ours.
#pragma once

#include <kolo/core/error.hpp>

#include <climits>
#include <cstddef>
#include <string>
#include <utility>

#include <nccl.h>

namespace kolo::inline v0::nccl::detail {

constexpr bool is_fine(ncclResult_t r) { return r == ncclSuccess || r == ncclInProgress; }

/// NCCL's words for what went wrong; `comm` may be null.
inline std::string words_for(const char* call, ncclResult_t r, ncclComm_t comm) {
  std::string said = std::string{call} + ": " + ncclGetErrorString(r);
  const char* const last = ncclGetLastError(comm);
  return last && *last ? said + " (" + last + ")" : said;
}

inline ncclConfig_t without_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

/// One of NCCL's communicators: ours, aborted unless it was destroyed; or somebody else's, and left alone.
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
    if (ncclComm_t c = std::exchange(comm_, nullptr); c && is_ours_) static_cast<void>(ncclCommAbort(c));
  }
  void destroy() noexcept {
    if (ncclComm_t c = std::exchange(comm_, nullptr); c && is_ours_) static_cast<void>(ncclCommDestroy(c));
  }

 private:
  ncclComm_t comm_ = nullptr;
  bool is_ours_ = true;
};

}  // namespace kolo::inline v0::nccl::detail

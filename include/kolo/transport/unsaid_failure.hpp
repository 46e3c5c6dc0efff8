// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What whoever runs the rank asks in the end: a failure that a destructor found, where nothing can be thrown, and that
// no call has said since; and whether the rank has gone on without others.
#pragma once

#include <kolo/core/error.hpp>

#include <atomic>
#include <mutex>
#include <optional>

namespace kolo::inline KOLO_ABI::detail::transport {

/// Communicators that are made of one another share it. The first one stays, until its finder says it in a call after
/// all.
class unsaid_failure {
 public:
  void keep(const void* finder, const failure& f) {
    const std::lock_guard alone{lock_};
    if (!first_) first_ = f, finder_ = finder;
  }
  void was_said_by(const void* finder) {
    const std::lock_guard alone{lock_};
    if (finder_ == finder) first_.reset(), finder_ = nullptr;
  }
  /// Another one may have its address from now on.
  void is_gone(const void* finder) {
    const std::lock_guard alone{lock_};
    if (finder_ == finder) finder_ = nullptr;
  }
  /// When the rank's program believes that all went well. Throws the failure, if there is one.
  void say() const {
    if (first_) throw error{*first_};
  }

  std::atomic<bool> went_on{false};  ///< by `shrink`, and no later one has failed

 private:
  std::mutex lock_;
  std::optional<failure> first_{};
  const void* finder_ = nullptr;
};

}  // namespace kolo::inline KOLO_ABI::detail::transport

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asked by a launcher after the rank's function returns: a failure that a destructor found (it cannot throw) and no
// later call reported; and whether the rank continued without others.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/core/less_code.hpp>
#include <kolo/transport/forwarded.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::transport {

/// Shared by the communicators of a rank. Keeps the first failure, unless its finder reports it in a later call.
class unreported_failure {
 public:
  /// Of the rank that this thread is.
  static std::shared_ptr<unreported_failure>& of_this_rank() {
    thread_local auto its = core::shared<unreported_failure>();
    return its;
  }
  void keep(const void* finder, const failure& f) {
    const std::lock_guard alone{lock_};
    if (!first_ && !is_of_lost(f)) first_ = f, finder_ = finder;
  }
  void was_reported_by(const void* finder) {
    const std::lock_guard alone{lock_};
    if (finder_ == finder) first_.reset(), finder_ = nullptr;
  }
  /// A new engine may have its address from now on.
  void is_gone(const void* finder) {
    const std::lock_guard alone{lock_};
    if (finder_ == finder) finder_ = nullptr;
  }
  /// The rank has continued by `shrink` without the `lost` ranks: what they have caused is dealt with, on whatever
  /// communicator, found before or later; and so is what was found before and is of a rank that is not known.
  void recover(const core::dynarray<rank_identity>& lost) {
    const std::lock_guard alone{lock_};
    core::dynarray<rank_identity> all{lost_.size() + lost.size()};
    std::copy(lost.begin(), lost.end(), std::copy(lost_.begin(), lost_.end(), all.begin()));
    lost_ = std::move(all);
    if (first_ && (is_of_lost(*first_) || !is_known(first_->caused_by))) first_.reset(), finder_ = nullptr;
    recovered = true;
  }
  /// Called when the rank's program has returned without an error. Throws the failure, if there is one.
  void throw_if_any() const {
    if (first_) throw error{*first_};
  }

  std::atomic<bool> recovered{false};  ///< by `shrink`, and no later one has failed

 private:
  bool is_of_lost(const failure& f) const {
    for (const rank_identity& r : lost_)
      if (r == f.caused_by) return is_known(r);
    return false;
  }

  std::mutex lock_;
  std::optional<failure> first_{};
  core::dynarray<rank_identity> lost_{};
  const void* finder_ = nullptr;
};

}  // namespace kolo::inline KOLO_ABI::detail::transport

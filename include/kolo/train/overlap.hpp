// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts the exchange of each bucket when its gradients are ready, in one order on all ranks; reports the overlap.
#pragma once

#include <kolo/execute/engine.hpp>
#include <kolo/execute/request.hpp>
#include <kolo/train/background.hpp>
#include <kolo/train/buckets.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// How long the last exchange of gradients took on this rank, in seconds, and how much of it was hidden.
struct overlap_report {
  double exchange = 0;  ///< from the start of the first bucket until the end of the last was detected
  double waited = 0;    ///< the part of it in which `synchronize` only waited
  double hidden() const { return exchange > 0 ? 1 - waited / exchange : 0; }  ///< 0: none of it; 1: all
};

namespace detail::train {

/// Calls that start during its lifetime belong to the optimizer with this number. Calls of two optimizers may look
/// alike, so number and step are hashed into the call history: ranks that step optimizers in different orders, or that
/// are at different steps, do not match.
template <Transport T>
class calls_of {
 public:
  calls_of(execute::engine<T>& e, std::uint32_t number, long step = 0) : engine_{e} {
    e.owner = number;
    e.history = (e.history ^ (number + std::uint32_t(step) * 0x85ebca6bu)) * 0x9e3779b1u;
  }
  calls_of(const calls_of&) = delete;
  calls_of& operator=(const calls_of&) = delete;
  ~calls_of() { engine_.owner = 0; }

 private:
  execute::engine<T>& engine_;
};

/// One operation for each bucket, started in the plan's order, each when all of its parameters are ready. `Owner`
/// defines it: `prepare(b)` runs just before bucket b is started, `start(b)` returns its request (which is restarted
/// later).
///
/// With a helper two threads use it: while the communicator is lent, the training thread uses only the marks, and the
/// helper everything else.
template <Transport T, class Owner>
class bucket_queue {
 public:
  bucket_queue(execute::engine<T>& e, Owner& owner, const bucket_plan& plan, std::size_t parameters, background* helper)
      : engine_{e},
        owner_{owner},
        plan_{plan},
        helper_{helper},
        number_{++e.owners},
        bucket_of_(parameters, plan.buckets.size()),
        is_marked_(parameters, 0) {
    for (std::size_t b = 0; b < plan.buckets.size(); ++b)
      for (const std::size_t i : plan.buckets[b].parameters) bucket_of_[i] = b;
    requests_.reserve(plan.buckets.size());
    reset();
  }
  bucket_queue(const bucket_queue&) = delete;
  bucket_queue& operator=(const bucket_queue&) = delete;
  ~bucket_queue() { end(); }

  /// Cancels a helper that waits for gradients that will not be marked, and waits for the exchanges that it has
  /// started. `longest`: the time limit for a helper that has not started.
  void take_back(std::chrono::nanoseconds longest) {
    if (!std::exchange(is_lent_, false)) return;
    helper_->change([&] { is_called_off_ = true; });
    try {
      helper_->take_back(std::min(longest, engine_.transport.timeout()));
    } catch (...) {  // NOLINT: the communicator keeps the cause
    }
  }
  /// Call it before anything that the owner's `prepare` and `start` use is destroyed. If nothing is lent, the
  /// communicator may be destroyed already.
  void end() {
    take_back(std::chrono::nanoseconds::max());
    requests_.clear();
  }

  /// Returns a guard: calls that start during its lifetime belong to this optimizer and carry its number of updates, so
  /// that a rank that alone skipped an update does not match.
  calls_of<T> calls() { return {engine_, number_, updates_}; }
  void count_update() { ++updates_; }

  bool is_marked(std::size_t i) const { return is_marked_[i] != 0; }
  bool is_begun() const { return marks_ > 0; }  ///< some gradient is marked
  bool is_lent() const { return is_lent_; }
  const overlap_report& report() const { return report_; }

  /// Call it before each `mark`: the first lends the communicator to the helper, which throws if it has another
  /// optimizer's exchange.
  void begin() {
    if (!helper_ || marks_ > 0) return;
    is_called_off_ = false;
    helper_->lend([](void* self) { static_cast<bucket_queue*>(self)->exchange_all(); }, this);
    is_lent_ = true;
  }
  /// Marks the gradient of this parameter as ready.
  void mark(std::size_t i) {
    is_marked_[i] = 1;
    ++marks_;
    const std::size_t b = bucket_of_[i];
    if (b == plan_.buckets.size()) return progress();
    if (is_lent_) helper_->change([&] { --missing_[b]; });
    else --missing_[b], progress();
  }

  /// Progresses the exchanges without waiting.
  void progress() {
    if (is_lent_) return;
    start_ready();
    while (finished_ < requests_begun_ && requests_[finished_].test()) finish_one();
  }

  /// Called when all gradients are ready: waits until all buckets have been exchanged. Calls arrived(b) for each
  /// bucket, in order, as soon as it has been.
  void finish(auto arrived) {
    const double since = transport::seconds_now(engine_.transport);
    if (is_lent_) {
      helper_->change([&] { missing_.assign(missing_.size(), 0); });
      is_lent_ = false;
      helper_->take_back(engine_.transport.timeout());
    }
    missing_.assign(missing_.size(), 0);
    start_ready();
    for (std::size_t b = 0; b < requests_begun_; ++b) {
      if (b == finished_) requests_[b].wait(), finish_one();
      arrived(b);
    }
    report_.exchange = plan_.buckets.empty() ? 0 : last_end_ - first_start_;
    report_.waited = std::max(0.0, std::min(last_end_ - since, report_.exchange));
    reset();
  }

 private:
  void reset() {
    missing_.resize(plan_.buckets.size());
    for (std::size_t b = 0; b < missing_.size(); ++b) missing_[b] = plan_.buckets[b].parameters.size();
    is_marked_.assign(is_marked_.size(), 0);
    marks_ = requests_begun_ = finished_ = 0;
  }

  /// Runs on the helper.
  void exchange_all() {
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
      bool is_ready = false;
      helper_->wait_until([&] { return (is_ready = missing_[b] == 0) || is_called_off_; });
      if (!is_ready) return;  // cancelled; buckets that are ready on all ranks are exchanged nevertheless
      start(b);
      requests_[b].wait();
      finish_one();
    }
  }

  void start_ready() {
    while (requests_begun_ < plan_.buckets.size() && missing_[requests_begun_] == 0) start(requests_begun_);
  }
  void start(std::size_t b) {
    if (b == 0) first_start_ = transport::seconds_now(engine_.transport);
    owner_.prepare(b);
    const auto mine = calls();
    if (b == requests_.size()) requests_.push_back(owner_.start(b));
    else requests_[b].restart();
    ++requests_begun_;
  }
  void finish_one() {
    if (++finished_ == plan_.buckets.size()) last_end_ = transport::seconds_now(engine_.transport);
  }

  execute::engine<T>& engine_;
  Owner& owner_;
  const bucket_plan& plan_;
  background* helper_;
  std::uint32_t number_;  ///< of this optimizer on its communicator
  long updates_ = 0;
  std::vector<std::size_t> bucket_of_,
      missing_{};  ///< of each parameter; of each bucket: parameters that are not ready
  std::vector<char> is_marked_;
  std::size_t marks_ = 0, requests_begun_ = 0, finished_ = 0;
  std::vector<request<T>> requests_{};
  bool is_lent_ = false, is_called_off_ = false;
  double first_start_ = 0, last_end_ = 0;
  overlap_report report_{};
};

}  // namespace detail::train
}  // namespace kolo::inline KOLO_ABI

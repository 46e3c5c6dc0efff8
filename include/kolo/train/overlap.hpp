// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts the exchange of each bucket when its gradients are ready, in one order on all ranks; reports the overlap.
#pragma once

#include <kolo/execute/request.hpp>
#include <kolo/train/background.hpp>
#include <kolo/train/buckets.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// How long the last exchange of gradients took on this rank, in seconds, and how much of it was hidden.
struct overlap_report {
  double exchange = 0;  ///< from the start of the first bucket until the end of the last was detected
  double waited = 0;    ///< the part of it in which `synchronize` only waited
  double hidden() const { return exchange > 0 ? 1 - waited / exchange : 0; }  ///< 0: none of it; 1: all
};

namespace detail::train {

/// A number for an optimizer on this communicator.
template <class T>
std::uint32_t number_of_optimizer(execute::engine<T>& e);

/// Calls that start during its lifetime belong to the optimizer with this number. Calls of two optimizers may look
/// alike, so number and step are hashed into the call history: ranks that step optimizers in different orders, or that
/// are at different steps, do not match.
template <class T>
class calls_of {
 public:
  calls_of(execute::engine<T>& e, std::uint32_t number, long step = 0);
  calls_of(const calls_of&) = delete;
  calls_of& operator=(const calls_of&) = delete;
  ~calls_of();

 private:
  execute::engine<T>& engine_;
};

template <class T>
class gradient_exchange;  // train/gradient_exchange.hpp

/// Starts an optimizer's exchange of each bucket in the plan's order, when all of its parameters are ready: calls
/// `prepare(b)`, then `start(b)`, which returns a request that is restarted in later steps; and `finish` calls
/// `arrived(b)`.
///
/// With a helper two threads use it: while the communicator is lent, the training thread uses only the marks, and the
/// helper everything else.
template <class T>
class bucket_queue {
 public:
  bucket_queue(execute::engine<T>& e, gradient_exchange<T>& exchange, const bucket_plan& plan, std::size_t parameters,
               background* helper);
  bucket_queue(const bucket_queue&) = delete;
  bucket_queue& operator=(const bucket_queue&) = delete;
  ~bucket_queue() { end(); }

  /// Cancels a helper that waits for gradients that will not be marked, and waits for the exchanges that it has
  /// started. `longest`: the time limit for a helper that has not started.
  void take_back(std::chrono::nanoseconds longest);
  /// Call it before anything that `prepare` and `start` use is destroyed. If nothing is lent, the communicator may be
  /// destroyed already.
  void end();

  /// Returns a guard: calls that start during its lifetime belong to this optimizer and carry its number of updates, so
  /// that a rank that alone skipped an update does not match.
  calls_of<T> calls() { return {engine_, number_, updates_}; }
  void count_update() { ++updates_; }

  bool is_lent() const { return is_lent_; }
  const overlap_report& report() const { return report_; }

  /// Call it before the first `mark` of an exchange: lends the communicator to the helper, which throws if it has
  /// another optimizer's exchange.
  void begin();
  /// Marks the gradient of this parameter as ready.
  void mark(std::size_t i);

  /// Progresses the exchanges without waiting.
  void progress();

  /// Called when all gradients are ready: waits until all buckets have been exchanged. Calls `arrived` for each bucket,
  /// in order, as soon as it has been.
  void finish();

 private:
  void reset();
  void exchange_all();  ///< on the helper
  void start_ready();
  void start(std::size_t b);
  void finish_one();

  execute::engine<T>& engine_;
  gradient_exchange<T>& exchange_;
  const bucket_plan& plan_;
  background* helper_;
  std::uint32_t number_;  ///< of this optimizer on its communicator
  long updates_ = 0;
  std::vector<std::size_t> bucket_of_,
      missing_{};  ///< of each parameter; of each bucket: parameters that are not ready
  std::size_t requests_begun_ = 0, finished_ = 0;
  std::vector<request<T>> requests_{};
  bool is_lent_ = false;
  double first_start_ = 0, last_end_ = 0;
  overlap_report report_{};
};

}  // namespace detail::train
}  // namespace kolo::inline KOLO_ABI

#ifndef KOLO_DECLARES
#include <kolo/train/impl/bucket_queue.hpp>
#endif

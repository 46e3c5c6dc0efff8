// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lets a thread of the user progress the exchange while another thread runs the backward pass.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/core/own_process.hpp>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <utility>

namespace kolo::inline KOLO_ABI {

/// Passes the communicator between the training thread and a helper thread that exchanges. The library creates no
/// thread:
///
///     kolo::background exchange;
///     std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};   // yours: pin it where you like
///     kolo::distributed_optimizer optimizer{comm, sgd{}, parameters, {.helper = &exchange}};
///
/// The communicator belongs to
///
/// * the helper from the first `ready` of an exchange to the end of `synchronize`, or of the `step` that calls it: no
///   other thread may call anything on it
/// * with an outer_optimizer, the helper from one `step` to the next call, while a fragment is being exchanged
/// * the training thread otherwise
///
/// The helper sleeps while no bucket is ready, and waits as every collective does (spins, yields, sleeps) while one is
/// being exchanged. `synchronize` or `step` rethrows its exceptions. It serves one optimizer at a time: it refuses
/// another's exchange until the first has ended. A refusal changes nothing and concerns this rank alone: the others are
/// not notified, and wait until it repeats the call. It must run until the optimizer is destroyed. Over MPI it needs
/// the thread level MPI_THREAD_SERIALIZED, which `mpi::environment` must request (its default is FUNNELED); below it
/// the helper's first call throws `invalid_argument`.
class background {
 public:
  background() = default;
  background(const background&) = delete;
  background& operator=(const background&) = delete;

  /// Called on the helper's thread: runs until `stop` is requested and nothing is lent. If several threads call
  /// it, one of them takes each exchange.
  void run(std::stop_token stop) {
    std::unique_lock lock{mutex_};
    for (++runs_, has_ended_ = false; changed_.wait(lock, stop, [&] { return work_ != nullptr && !is_taken_; });) {
      is_taken_ = true;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        work_(argument_);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      work_ = nullptr;
      thrown_ = std::move(thrown);
      changed_.notify_all();
    }
    has_ended_ = --runs_ == 0;
  }

  /// Throws `invalid_argument` if another optimizer has lent an exchange and not taken it back.
  void demand_free() {
    const std::lock_guard lock{mutex_};
    if (is_lent_) refuse();
  }
  /// The helper calls work(argument) once. It owns the communicator until `take_back` returns. Errors: those of
  /// `demand_free`.
  void lend(void (*work)(void*), void* argument) {
    if (!try_lend(work, argument)) refuse();
  }
  /// The same, but returns false where `lend` throws. For work that the optimizer would otherwise do in its next call.
  bool try_lend(void (*work)(void*), void* argument) {
    const std::lock_guard lock{mutex_};
    if (std::exchange(is_lent_, true)) return false;
    work_ = work;
    argument_ = argument;
    lender_ = {};
    is_taken_ = is_cancelled_ = false;
    changed_.notify_all();
    return true;
  }
  /// Waits until that call has returned, and rethrows its exception. In a forked child, where no helper runs, it does
  /// nothing. Errors: `timeout` if no helper starts it within `timeout`.
  void take_back(std::chrono::nanoseconds timeout) {
    if (!lender_.is_this()) return;
    std::unique_lock lock{mutex_};
    const auto is_taken = [&] { return work_ == nullptr || is_taken_; };
    if (!changed_.wait_for(lock, timeout, [&] { return is_taken() || has_ended_; }) || !is_taken()) {
      work_ = nullptr;
      is_lent_ = false;
      throw error{
          errc::timeout,
          "an exchange was given to a kolo::background that no thread runs: call its run() on a thread of yours"};
    }
    changed_.wait(lock, [&] { return work_ == nullptr; });
    is_lent_ = false;
    if (thrown_) detail::core::rethrow(std::exchange(thrown_, nullptr));
  }

  /// The same, but that call ends as soon as it learns of it: by one of the next two.
  void cancel(std::chrono::nanoseconds timeout) {
    if (lender_.is_this()) change([&] { is_cancelled_ = true; });
    take_back(timeout);
  }

  /// For the helper's call: waits for `condition`, which is checked again after every `change`. False: the call is
  /// cancelled, and it does not hold.
  bool wait_until(auto condition) {
    std::unique_lock lock{mutex_};
    bool holds = false;
    changed_.wait(lock, [&] { return (holds = condition()) || is_cancelled_; });
    return holds;
  }
  /// Waits for `longest`, unless the call is cancelled. Returns whether it is.
  bool is_cancelled_within(std::chrono::nanoseconds longest) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, longest, [&] { return is_cancelled_; });
  }
  /// Changes the state that a condition of `wait_until` reads.
  void change(auto change) {
    const std::lock_guard lock{mutex_};
    change();
    changed_.notify_all();
  }

 private:
  [[noreturn]] static void refuse() {
    throw error{errc::invalid_argument,
                "this kolo::background has the exchange of another optimizer: give each optimizer a background of "
                "its own, or end the other's exchange first: by its synchronize, its step or the end of its uses"};
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  void (*work_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool is_lent_ = false, is_taken_ = false, is_cancelled_ = false, has_ended_ = false;
  detail::core::own_process lender_{};  ///< the process that has lent it last
  int runs_ = 0;                        ///< calls of `run` now
  std::exception_ptr thrown_;
};

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The handles of calls: a request, started once and waited for later, and a plan, run again and again.
#pragma once

#include <kolo/execute/calls.hpp>

#include <memory>
#include <string>

namespace kolo::inline KOLO_ABI {

namespace detail::execute {
template <class T>
struct pending_call;  // impl/request.hpp
template <class T>
concept KeptInWords = requires(const pending_call<T>& c) {
  c.run.how();
};
}  // namespace detail::execute

/// An operation that was started. Operations of a communicator progress in the order in which they were started,
/// whichever is tested or waited for. While a thread waits for anything, or tests, all operations that it has started
/// progress, on every communicator: so requests on several may be waited for in any order. (Not if elements lie on a
/// device: those requests progress in calls on their own communicator only, so all ranks must wait for them in one
/// order.) No progress is made outside such calls. The buffers belong to the operation until it has finished. A request
/// that was moved from may be assigned to or destroyed, and all else throws `invalid_argument`; the same holds for a
/// plan.
template <class T>
class [[nodiscard]] request {
 public:
  /// Starts it: entry.hpp. Ranks compare `types` and `site` in checked mode.
  request(const std::shared_ptr<detail::execute::engine<T>>& on, std::unique_ptr<detail::execute::any_call> call,
          const typename detail::execute::options_of<T>::type& options, const detail::execute::call_types& types,
          call_site site);
  request(request&&) noexcept;
  request& operator=(request&& other) noexcept;

  /// Waits, and throws nothing: a failure is reported by the next call on the communicator or, without one, by the
  /// launcher: `launch` and `run` treat it as the rank's own failure. While an exception unwinds the stack it does not
  /// wait; it breaks the communicator, and the other ranks are notified. (Not if that exception is the refusal of a
  /// second thread: then it waits, first for the other thread's call, whose next one waits for this.)
  ~request();

  /// Whether it has finished. Makes progress, does not wait. Throws kolo::error if it failed.
  bool test();

  /// Waits until it has finished. Throws kolo::error if it failed.
  void wait();

  /// Starts it once more, on the same buffers, after it has finished: allocates nothing.
  /// Errors  invalid_argument: it has not finished.
  void restart();

 private:
  void begin();

  std::unique_ptr<detail::execute::pending_call<T>> state_;
  int exceptions_ = 0;
};

/// A call that is run again and again on the same buffers, which must outlive it. After the first run it allocates
/// nothing.
template <class T>
class [[nodiscard]] plan {
 public:
  /// Like a request that is not started yet.
  plan(const std::shared_ptr<detail::execute::engine<T>>& on, std::unique_ptr<detail::execute::any_call> call,
       const typename detail::execute::options_of<T>::type& options, const detail::execute::call_types& types,
       call_site site);
  plan(plan&&) noexcept;
  plan& operator=(plan&&) noexcept;
  ~plan();

  /// How it runs now, in words: as a CUDA graph, or why not. For transports with graphs (NCCL).
  std::string how() const requires detail::execute::KeptInWords<T>;

  /// Starts the call, and waits until it has finished. Throws kolo::error if it failed.
  void run();

 private:
  std::unique_ptr<detail::execute::pending_call<T>> state_;
};

}  // namespace kolo::inline KOLO_ABI

#ifndef KOLO_DECLARES
#include <kolo/impl/request.hpp>
#endif

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The three ways to run a call: wait for it, start it and ask later, or plan it once and run it again and again.
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
/// whichever is tested or waited for. While a thread waits for anything, or tests, all that it has started goes on, on
/// every communicator: so requests on several may be waited for in any order. (Not where elements lie on a device:
/// those requests go on in calls on their own communicator only, so all ranks wait for them in one order.) Nothing
/// happens in between. The buffers belong to the operation until it has finished. One that was moved from may be
/// assigned to or destroyed, and all else throws `invalid_argument`; so with a plan.
template <class T>
class [[nodiscard]] request {
 public:
  /// Starts it: entry.hpp. `types` and `site` are what ranks compare in checked mode.
  request(const std::shared_ptr<detail::execute::engine<T>>& on, std::unique_ptr<detail::execute::any_call> call,
          const typename detail::execute::options_of<T>::type& options, const detail::execute::call_types& types,
          call_site site);
  request(request&&) noexcept;
  request& operator=(request&& other) noexcept;

  /// Waits, and throws nothing: what goes wrong is said by the next call on the communicator, or, where none comes, by
  /// what runs the rank: `launch` and `run` take it for the rank's own failure. While an exception unwinds the stack
  /// nothing is waited for; the communicator is broken then, and the other ranks are told.
  ~request();

  /// Has it finished? Makes progress, does not wait. Throws kolo::error when it failed.
  bool test();

  /// Until it has finished. Throws kolo::error when it failed.
  void wait();

  /// Starts it once more, on the same buffers, after it has finished: allocates nothing.
  /// Errors  invalid_argument: it has not finished.
  void restart();

 private:
  void begin();

  std::unique_ptr<detail::execute::pending_call<T>> state_;
  int exceptions_ = 0;
};

/// A call that is run again and again on the same buffers, which it must not outlive. Running it allocates nothing
/// after the first time.
template <class T>
class [[nodiscard]] plan {
 public:
  /// As a request, which is not started yet.
  plan(const std::shared_ptr<detail::execute::engine<T>>& on, std::unique_ptr<detail::execute::any_call> call,
       const typename detail::execute::options_of<T>::type& options, const detail::execute::call_types& types,
       call_site site);
  plan(plan&&) noexcept;
  plan& operator=(plan&&) noexcept;
  ~plan();

  /// How it runs now, in words: as a CUDA graph, or why not. Where the transport makes them (NCCL).
  std::string how() const requires detail::execute::KeptInWords<T>;

  /// Begins the call, and waits until it has finished. Throws kolo::error when it failed.
  void run();

 private:
  std::unique_ptr<detail::execute::pending_call<T>> state_;
};

}  // namespace kolo::inline KOLO_ABI

#ifndef KOLO_DECLARES
#include <kolo/impl/request.hpp>
#endif

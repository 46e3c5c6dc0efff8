// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The three ways to run a call: wait for it, start it and ask later, or plan it once and run it again and again.
#pragma once

#include <kolo/execute/collective_operation.hpp>
#include <kolo/execute/small_call_messages.hpp>
#include <kolo/transport/passed_on.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace kolo::inline KOLO_ABI {

namespace detail {

/// Refuses a deadline that is negative: to take it for none would be to wait for minutes where somebody has computed that no time is left.
template <Transport T>
std::chrono::nanoseconds timeout_of(engine<T>& e, const char* call, const typename T::options& options) {
  if (options.timeout.count() == 0) return e.transport.timeout();
  if (options.timeout.count() < 0) [[unlikely]]
    e.refuse(call, negative_deadline);
  return options.timeout;
}

/// What an operation says of itself.
template <Transport T>
void describe(collective_operation<T>& run, engine<T>& e, const collective_args& args,
              const typename T::options& options) {
  run.now.operation = name(args.collective);
  run.now.timeout = timeout_of(e, name(args.collective), options);
  run.subject = subject_of(args);
  run.fingerprint = args.fingerprint;
}

/// Something that keeps a call's views, operator and schedule alive, and has its arguments.
struct any_call {
  collective_args args{};
  any_call() = default;
  any_call(const any_call&) = delete;
  any_call& operator=(const any_call&) = delete;
  virtual ~any_call() = default;
};

template <Transport T>
void run_to_the_end(engine<T>& e, const collective_args& args, const typename T::options& options) {
  if constexpr (has_small_calls<T>)
    if (const auto* const plan = small_plan_for(e, args)) {
      const auto timeout = timeout_of(e, name(args.collective), options);
      return e.run_now(name(args.collective), timeout, plan->subject, args.fingerprint, [&](operation& o) {
        if constexpr (TakesOptions<T>) e.transport.begin(options);
        if constexpr (SharedMemoryTransport<T>) small_call_run<T>{e, args, o, *plan}.run();
        else small_call_messages<T>{e, args, o, *plan}.run();
      });
    }
  collective_operation<T> run{e, args, options};
  describe(run, e, args, options);
  e.enqueue(run);
  try {
    e.wait(run);
  } catch (...) {
    e.abandon(run);
    throw;
  }
}

/// A call that is kept, and in checked mode what comes before it.
template <Transport T>
struct pending_call {
  using comparison = typename engine<T>::comparison;

  pending_call(std::shared_ptr<engine<T>> on, std::unique_ptr<any_call> c, std::unique_ptr<comparison> asked,
               const typename T::options& options)
      : e{std::move(on)}, call{std::move(c)}, before{std::move(asked)}, run{*e, call->args, options} {
    describe(run, *e, call->args, options);
  }
  void enqueue() {
    if (before) {
      before->restart();
      e->enqueue_before(*before);
    }
    try {
      e->enqueue(run);
    } catch (...) {
      if (before) e->abandon(*before);
      throw;
    }
  }
  void abandon() noexcept {
    e->abandon(run);
    if (before) e->abandon(*before);
  }

  std::shared_ptr<engine<T>> e;
  std::unique_ptr<any_call> call;
  std::unique_ptr<comparison> before;
  collective_operation<T> run;
};

}  // namespace detail

/// An operation that was started. Operations of a communicator progress in the order in which they were started, whichever is
/// tested or waited for. While a thread waits for anything, or tests, all that it has started goes on, on every communicator: so requests on several
/// may be waited for in any order. (Not where elements lie on a device: those requests go on in calls on their own communicator only, so all ranks wait
/// for them in one order.) Nothing happens in between. The buffers belong to the operation until it has finished.
template <Transport T>
class [[nodiscard]] request {
 public:
  explicit request(std::unique_ptr<detail::pending_call<T>> call)
      : state_{std::move(call)}, exceptions_{std::uncaught_exceptions()} {
    begin();
  }
  request(request&&) noexcept = default;
  request& operator=(request&& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(exceptions_, other.exceptions_);
    return *this;
  }

  /// Waits, and throws nothing: what goes wrong is said by the next call on the communicator, or, where none comes, by what runs the rank: `launch` and
  /// `run` take it for the rank's own failure. While an exception unwinds the stack nothing is waited for; the communicator is broken then, and the other
  /// ranks are told.
  ~request() {
    if (!state_) return;
    auto& e = *state_->e;
    e.take_over();
    detail::operation& o = state_->run;
    if (o.finished) return;
    if (std::uncaught_exceptions() > exceptions_) {
      failure f = detail::said_in_unwinding(e.transport, "an exception destroyed its operation before it had finished");
      f.sequence = o.now.sequence;
      f.operation = std::string_view{o.now.operation};
      e.transport.fail(f);
    } else if (e.ends_well(o)) {
      return;
    }
    state_->abandon();
  }

  /// Has it finished? Makes progress, does not wait. Throws kolo::error when it failed.
  bool test() { return state_->e->test(state_->run); }

  /// Until it has finished. Throws kolo::error when it failed.
  void wait() { state_->e->wait(state_->run); }

  /// Starts it once more, on the same buffers, after it has finished: allocates nothing.
  void restart() {
    state_->run.make_persistent();
    state_->run.restart();
    begin();
  }

 private:
  void begin() {
    auto& e = *state_->e;
    if constexpr (detail::engine<T>::progresses_in_other_waits) e.join();
    state_->enqueue();
    e.begins();
  }

  std::unique_ptr<detail::pending_call<T>> state_;
  int exceptions_ = 0;
};

/// A call that is run again and again on the same buffers, which it must not outlive. Running it allocates nothing after the
/// first time.
template <Transport T>
class [[nodiscard]] plan {
 public:
  explicit plan(std::unique_ptr<detail::pending_call<T>> call) : state_{std::move(call)} {
    state_->run.make_persistent();
  }

  /// How it runs now, in words: as a CUDA graph, or why not. Where the transport makes them (NCCL).
  std::string how() const requires requires(const detail::pending_call<T>& c) { c.run.how(); }
  { return state_->run.how(); }

  void run() {
    state_->run.restart();
    state_->enqueue();
    try {
      state_->e->wait(state_->run);
    } catch (...) {
      state_->abandon();
      throw;
    }
  }

 private:
  std::unique_ptr<detail::pending_call<T>> state_;
};

}  // namespace kolo::inline KOLO_ABI

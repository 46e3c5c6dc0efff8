// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The three ways to run a call: wait for it, start it and ask later, or plan it once and run it again and again.
#pragma once

#include <kolo/execute/either.hpp>
#include <kolo/execute/quick_messages.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace kolo::inline v0 {

namespace detail {

template <class T>
struct run_for {
  static_assert(Slotted<T>, "kolo: this transport is neither Slotted nor Messaging; static_assert(kolo::Messaging<T>) shows what it lacks");
};
template <Slotted T>
struct run_for<T> {
  using type = slotted_run<T>;
};
template <Messaging T>
  requires(!Slotted<T>)
struct run_for<T> {
  using type = messaging_run<T>;
};
template <Slotted T>
  requires Messaging<T>
struct run_for<T> {
  using type = either_run<T>;
};

/// Refuses a deadline that is negative: to take it for none would be to wait for minutes where somebody has computed that no time is left.
template <Transport T>
std::chrono::nanoseconds timeout_of(engine<T>& e, const char* call, const typename T::options& options) {
  if (options.timeout.count() == 0) return e.transport.timeout();
  if (options.timeout.count() < 0) [[unlikely]] e.refuse(call, negative_deadline);
  return options.timeout;
}

template <Transport T>
void prepare(typename run_for<T>::type& run, engine<T>& e, const problem& job, const typename T::options& options) {
  if constexpr (requires { run.options = options; }) run.options = options;
  if constexpr (requires { run.say(options); }) run.say(options);
  operation& o = run;
  o.now.operation = name(job.collective);
  o.subject = subject_of(job);
  o.fingerprint = job.fingerprint;
  o.now.timeout = timeout_of(e, name(job.collective), options);
}

/// Something that keeps a call's views, operator and schedule alive, and is its problem.
struct any_call {
  problem job{};
  any_call() = default;
  any_call(const any_call&) = delete;
  any_call& operator=(const any_call&) = delete;
  virtual ~any_call() = default;
};

template <Transport T>
void run_to_the_end(engine<T>& e, const problem& job, const typename T::options& options) {
  if constexpr (requires { typename quick_for<T>::type; }) {
    using quick = typename quick_for<T>::type;
    if (quick::can_run(e, job)) {
      if (const auto& plan = quick::plan_for(e, job); plan.is_usable) {
        operation o;
        const auto timeout = timeout_of(e, name(job.collective), options);
        o.now = situation{.operation = name(job.collective), .sequence = e.next_number(), .round = 0, .timeout = timeout};
        o.subject = plan.subject;
        o.tag = e.next_tag(job.fingerprint);
        e.flight.begin(o.now.sequence, o.subject);
        e.guard(o, [&] {
          if constexpr (requires { e.transport.begin(options); }) e.transport.begin(options);
          quick{e, job, o, plan}.run();
        });
        e.flight.end(o.now.sequence, o.subject);
        return e.flush();
      }
    }
  }
  typename run_for<T>::type run{e, job};
  prepare(run, e, job, options);
  e.enqueue(run);
  try {
    e.wait(run);
  } catch (...) {
    e.abandon(run);
    throw;
  }
}

/// It runs again and again, and the wire may make use of that.
template <class Run>
void keep(Run& run) {
  if constexpr (requires { run.keep(); }) run.keep();
}

/// A call that is kept, and in checked mode what comes before it.
template <Transport T>
struct kept_call {
  using comparison = typename engine<T>::comparison;

  kept_call(std::shared_ptr<engine<T>> on, std::unique_ptr<any_call> c, std::unique_ptr<comparison> asked, const typename T::options& options)
      : e{std::move(on)}, call{std::move(c)}, before{std::move(asked)}, run{*e, call->job} {
    prepare(run, *e, call->job, options);
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
  typename run_for<T>::type run;
};

}  // namespace detail

/// An operation that was started. Operations of a communicator progress in the order in which they were started, whichever is
/// tested or waited for. While a thread waits for anything, or tests, all that it has started goes on, on every communicator: so requests on several
/// may be waited for in any order. (Not where elements lie on a device: those requests go on in calls on their own communicator only, so all ranks wait
/// for them in one order.) Nothing happens in between. The buffers belong to the operation until it has finished.
template <Transport T>
class [[nodiscard]] request {
 public:
  explicit request(std::unique_ptr<detail::kept_call<T>> call) : state_{std::move(call)}, exceptions_{std::uncaught_exceptions()} { begin(); }
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
    e.claim();
    detail::operation& o = state_->run;
    if (o.finished) return;
    if (std::uncaught_exceptions() > exceptions_) {
      failure f;
      f.code = errc::peer_failed;
      f.rank = f.peer = e.transport.rank();
      f.sequence = o.now.sequence;
      f.operation = std::string_view{o.now.operation};
      f.text = "an exception destroyed its operation before it had finished";
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
    detail::keep(state_->run);
    state_->run.restart();
    begin();
  }

 private:
  void begin() {
    auto& e = *state_->e;
    if constexpr (detail::engine<T>::goes_on_elsewhere) e.join();
    state_->enqueue();
    e.begins();
  }

  std::unique_ptr<detail::kept_call<T>> state_;
  int exceptions_ = 0;
};

/// A call that is run again and again on the same buffers, which it must not outlive. Running it allocates nothing after the
/// first time.
template <Transport T>
class [[nodiscard]] plan {
 public:
  explicit plan(std::unique_ptr<detail::kept_call<T>> call) : state_{std::move(call)} { detail::keep(state_->run); }

  /// How it runs now, in words: as a CUDA graph, or why not. Where the transport makes them (NCCL).
  std::string how() const requires requires(const detail::kept_call<T>& c) { c.run.how(); } { return state_->run.how(); }

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
  std::unique_ptr<detail::kept_call<T>> state_;
};

}  // namespace kolo::inline v0

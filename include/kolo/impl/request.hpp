// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The members of requests and plans (execute/request.hpp).
#pragma once

#include <kolo/core/text.hpp>
#include <kolo/execute/request.hpp>
#include <kolo/impl/calls.hpp>
#include <kolo/transport/forwarded.hpp>

#include <exception>

#include <memory>
#include <utility>

namespace kolo::inline KOLO_ABI {

namespace detail::execute {

/// A started or planned call, and in checked mode the comparison that precedes it.
template <class T>
struct pending_call {
  pending_call(std::shared_ptr<engine<T>> on, std::unique_ptr<any_call> c, const typename options_of<T>::type& options)
      : e{std::move(on)}, call{std::move(c)}, run{*e, call->args, options} {
    execute::describe(run, call->args, summary_of(call->args), timeout_of(*e, call->args, options));
  }
  void enqueue() {
    e->guard(run, [&] { call->begin(); }), has_ended = false;
    if (check) check->restart(), e->enqueue_before(check->as_operation());
    core::with_rollback([&] { e->enqueue(run); }, [&] { abandon_check(); });
  }
  /// Ends the call once it has finished; only the first call has an effect.
  void end() {
    if (!std::exchange(has_ended, true)) e->guard(run, [&] { call->end(); });
  }
  void abandon() noexcept {
    e->abandon(run);
    abandon_check();
  }
  void abandon_check() noexcept {
    if (check) e->abandon(check->as_operation());
  }

  std::shared_ptr<engine<T>> e;
  std::shared_ptr<const select::node_choice> by_nodes = e->resolved.by_nodes,  ///< its schedule may be one of these
      fitted_nodes = e->resolved.fitted_nodes;
  std::unique_ptr<any_call> call;
  bool has_ended = false;
  std::unique_ptr<call_check> check{};  ///< in checked mode
  collective_operation<T> run;
};

/// Rejects a handle that was moved from.
template <class Call>
Call& held(const std::unique_ptr<Call>& state) {
  if (!state) [[unlikely]]
    core::throw_error(errc::invalid_argument, {"this request or plan was moved from, and holds no call"});
  return *state;
}

/// In checked mode a comparison precedes the call.
template <class T>
std::unique_ptr<pending_call<T>> keep_call(const std::shared_ptr<engine<T>>& on, std::unique_ptr<any_call> call,
                                           const typename options_of<T>::type& options, const call_types& types,
                                           call_site site) {
  auto all = std::make_unique<pending_call<T>>(on, std::move(call), options);
  if (on->is_checked) all->check = comparison_of(*on, types, all->call->args, options, site);
  return all;
}

}  // namespace detail::execute

template <class T>
request<T>::request(const std::shared_ptr<detail::execute::engine<T>>& on,
                    std::unique_ptr<detail::execute::any_call> call,
                    const typename detail::execute::options_of<T>::type& options,
                    const detail::execute::call_types& types, call_site site)
    : state_{detail::execute::keep_call(on, std::move(call), options, types, site)},
      exceptions_{std::uncaught_exceptions()} {
  begin();
}
template <class T>
request<T>::request(request&&) noexcept = default;
template <class T>
request<T>& request<T>::operator=(request&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(exceptions_, other.exceptions_);
  return *this;
}

template <class T>
request<T>::~request() {
  if (!state_ || state_->has_ended) return;
  const auto e = state_->e;
  if (!e->process.is_this()) return;  // a copy by fork: the operation is the parent's
  detail::execute::operation& o = state_->run;
  const auto fail = [&] {
    failure f = detail::transport::failure_while_unwinding(
        e->transport, "an exception destroyed its operation before it had finished");
    f.sequence = o.now.sequence;
    f.operation = std::string_view{o.now.operation};
    e->fail(f);
  };
  using detail::execute::calling_thread;
  const bool unwinds = std::uncaught_exceptions() > exceptions_ && !detail::execute::is_refused_thread();
  if (unwinds && calling_thread::is_another(e->caller)) fail();  // that thread's call ends by it
  const calling_thread here{e->caller, calling_thread::in_turn::yes};
  e->take_over();
  const bool breaks = unwinds && !o.finished;
  if (breaks) fail();
  if (breaks || !e->wait_noexcept(o, [this] { state_->end(); })) state_->abandon();
  state_.reset();  // in its turn
}

template <class T>
bool request<T>::test() {
  auto& call = detail::execute::held(state_);
  const detail::execute::whole_call here{*call.e, call.run.now.operation};
  if (!call.e->test(call.run)) return false;
  call.end();
  return true;
}
template <class T>
void request<T>::wait() {
  auto& call = detail::execute::held(state_);
  const detail::execute::whole_call here{*call.e, call.run.now.operation};
  call.e->wait(call.run);
  call.end();
}

template <class T>
void request<T>::restart() {
  auto& run = detail::execute::held(state_).run;
  state_->e->begin(run.now.operation);
  state_->e->throw_if_failed();
  if (!run.finished) throw error{errc::invalid_argument, "a request is started once more before it has finished"};
  state_->end();  // if another call has progressed it
  run.make_persistent();
  run.restart();
  begin();
}
template <class T>
void request<T>::begin() {
  auto& e = *state_->e;
  if constexpr (detail::execute::engine<T>::progresses_in_other_waits) e.join(&e.go_on);
  state_->enqueue();
  e.begins();
}

template <class T>
plan<T>::plan(const std::shared_ptr<detail::execute::engine<T>>& on, std::unique_ptr<detail::execute::any_call> call,
              const typename detail::execute::options_of<T>::type& options, const detail::execute::call_types& types,
              call_site site)
    : state_{detail::execute::keep_call(on, std::move(call), options, types, site)} {
  state_->run.make_persistent();
}
template <class T>
plan<T>::plan(plan&&) noexcept = default;
template <class T>
plan<T>& plan<T>::operator=(plan&&) noexcept = default;
template <class T>
plan<T>::~plan() = default;

template <class T>
std::string plan<T>::how() const requires detail::execute::KeptInWords<T> {
  if constexpr (detail::execute::KeptInWords<T>)
    return detail::execute::held(state_).run.how();  // also for explicit instantiation of the class
  else return {};
}

template <class T>
void plan<T>::run() {
  auto& call = detail::execute::held(state_);
  const detail::execute::whole_call here{*call.e, call.run.now.operation};
  call.run.restart();
  call.enqueue();
  detail::core::with_rollback([&] { call.e->wait(call.run), call.end(); }, [&] { call.abandon(); });
}

}  // namespace kolo::inline KOLO_ABI

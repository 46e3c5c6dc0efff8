// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The progress engine of a transport: the queue of started operations, what happens to them after a failure, and memory
// and choices that operations reuse.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/core/log.hpp>
#include <kolo/execute/call_cache.hpp>
#include <kolo/execute/calling_thread.hpp>
#include <kolo/execute/comparison.hpp>
#include <kolo/execute/failing.hpp>
#include <kolo/execute/operation.hpp>
#include <kolo/execute/pairs.hpp>
#include <kolo/execute/scratch.hpp>
#include <kolo/schedule/cost_model.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/progress.hpp>
#include <kolo/transport/transport.hpp>
#include <kolo/transport/unreported_failure.hpp>
#include <kolo/view/memory.hpp>

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::execute {

/// The part of a communicator that operations refer to: it stays in place when the communicator moves.
template <class T>
struct engine : transport::progress_client, failing<engine<T>> {
  static_assert(Transport<T>,
                "kolo: this type is not a Transport: static_assert(kolo::Transport<T>) shows what is missing");
  static_assert(transport::has_what_it_lists<T>());
  using memory = decltype(memory_of(std::declval<const T&>()));
  /// Whether a thread that waits on another communicator also progresses this one's requests. Not for device memory:
  /// another device may be current then, and an NCCL call may block until ranks arrive that themselves wait for this
  /// one.
  static constexpr bool progresses_in_other_waits = space_of<T> == memory_space::host;

  // Memory that every operation reuses. It outlives the transport, which may still write there.
  scratch<memory> of_running{};
  scratch<memory>* current_scratch = &of_running;  ///< of the operation that progresses now
  std::shared_ptr<p2p_state<T>> pairs{};           ///< null before the first pair operation
  comparison_buffers compared{};                   ///< the signatures that ranks compare in checked mode

  // Choices, made once for each kind of call.
  call_cache resolved{};
  bool has_chosen = false;                          ///< from then on the tables stay as they are
  std::unique_ptr<const tuning> named{}, fitted{};  ///< by the user; in this run

  T transport;
  transport::flight_log flight{transport};
  std::shared_ptr<transport::unreported_failure> unreported = transport::unreported_failure::of_this_rank();
  std::uint64_t sequence = 0;
  std::uint32_t history = 0;                         ///< of the fingerprints of all calls so far
  std::uint32_t owners = 0, owner = 0;               ///< optimizers created on it; the one that makes calls now
  calling_thread::caller caller{nullptr};            ///< the thread whose call runs, unless it only starts something
  bool has_reported = false;                         ///< a failure was reported to the caller
  bool has_failed = false;                           ///< a call on it has failed
  bool is_checked = execute::is_checked(transport);  ///< all ranks compare what they call, before every call
  operation* oldest = nullptr;
  operation* newest = nullptr;
  const operation* pair_at_work = nullptr;  ///< the pair operation that progresses now, not always the oldest
  bool is_advancing = false;
  /// An exception thrown while this thread waited on another communicator, for the next call here that it concerns.
  std::exception_ptr deferred{};

  template <class... Args>
  [[gnu::cold, gnu::noinline]] explicit engine(Args&&... args) : transport(std::forward<Args>(args)...) {
    if (core::logs != core::log_nothing) [[unlikely]]
      core::log_line(transport.rank(), {"joined a communicator of ", core::ranks_text(transport.size())});
  }
  ~engine() {
    leave();
    unreported->is_gone(this);
    if (must_keep_memory()) {
      of_running.abandon();
      if (pairs) pairs->abandon();
    }
  }
  /// To free a device's memory would wait for its streams, which may wait for a rank that is gone. The requests of a
  /// message transport may still use the host's, but not in a forked copy of this process. (Without a failure here, the
  /// transport may have been moved from.)
  bool must_keep_memory() {
    if constexpr (!std::is_base_of_v<host_memory, memory>) return transport.failed() != nullptr;
    else if constexpr (MessageTransport<T>)
      return has_failed && process.is_this() && transport::buffers_in_use(transport) > 0;
    else return false;
  }

  /// Sets the number and the tag of the next operation. Operations on another engine that this one alternates with (see
  /// composite) have ended by then.
  ///
  /// The tag consists of number, history and kind: so two ranks that exchange anything detect a difference in this
  /// call, and also in an earlier call in which they exchanged messages with no rank that could detect it. Different
  /// histories stay different, whatever calls follow.
  void number(operation& o) {
    acquire_turn();
    if (o.is_point_to_point()) return pairs->begin(o);
    o.tag = next_tag(o.fingerprint);
    o.now.sequence = sequence;
  }
  std::uint64_t next_tag(std::uint32_t fingerprint) {
    history = (history ^ fingerprint) * 0x9e3779b1u;
    return message_tag(++sequence, (history & ~0xffu) | (fingerprint & 0xffu));
  }
  void acquire_turn() {
    if constexpr (TakesTurns<T>) transport.acquire_turn(sequence);
  }

  /// Every call begins with this. Throws if another one runs, or in a forked child of the rank; then it has changed
  /// nothing.
  void begin(const char* call) {
    if (!process.is_this()) [[unlikely]]
      refuse_call(call, refused_child);
    if (caller.load(std::memory_order_acquire)) [[unlikely]]
      if (const void* const now = calling_thread::after_destructors(caller))
        refuse_call(call, calling_thread::is_own(now) ? refused_within : refused_thread);
    take_over();
    if (is_advancing) [[unlikely]]  // while its thread waits on another communicator
      refuse_call(call, refused_within);
  }
  [[noreturn, gnu::cold, gnu::noinline]] void refuse_call(const char* call, std::string_view why) {
    throw error{failure_from({.operation = call}, errc::invalid_argument, transport.rank(), {}, why)};
  }

  void enqueue(operation& o) {
    take_over();
    throw_if_failed();
    number(o);
    o.next = nullptr;
    o.previous = newest;
    o.finished = o.has_failed = false;
    o.is_stopped = newest && newest->is_stopped;
    o.waiting = {};
    o.is_up = o.is_point_to_point() && (!newest || newest->is_up);
    if (o.is_point_to_point()) pairs->enqueue(o);
    else if (!newest) flight->begin(o.now.sequence, o.summary, o.tag);
    (newest ? newest->next : oldest) = &o;
    newest = &o;
  }

  using comparison = execute::comparison<std::remove_reference_t<decltype(host_transport_of(std::declval<T&>()))>>;

  /// The operation enqueued next gets the same number.
  void enqueue_before(operation& c) {
    const auto before = history;
    enqueue(c);
    if (c.is_point_to_point()) return pairs->restore_number(c);
    --sequence;
    history = before;
  }
  /// Waits until all ranks have sent what they call next. Throws `mismatch` if that differs.
  [[gnu::cold, gnu::noinline]] void compare(const char* call, const call_signature& mine,
                                            std::chrono::nanoseconds timeout,
                                            transport::operation_summary what = comparison_marker) {
    comparison c{host_transport_of(transport), compared, call, mine, timeout, what};
    enqueue_before(c);
    wait_or_abandon(c);
    flight->take_back(c.now.sequence);
  }

  /// Does all work up to and including `o` that needs no waiting.
  advanced advance(operation& o) {
    if (deferred && !o.finished) [[unlikely]]
      mark_reported(), core::rethrow(std::exchange(deferred, nullptr));
    const core::scoped_value at_work{is_advancing, true};
    auto result = advanced::stuck;
    while (!o.finished) {
      if (oldest->is_point_to_point()) [[unlikely]] {
        if (pairs->advance(o) == advanced::stuck) return result;
        result = advanced::moved;
        continue;
      }
      if (oldest->has_failed) [[unlikely]]
        throw_if_failed();
      const auto a = guard(*oldest, [&] { return oldest->advance(*oldest); });
      if (a != advanced::finished) {
        if (a == advanced::moved) oldest->waiting.something_happened();
        return a == advanced::moved ? a : result;
      }
      oldest->finished = true;
      flight->end(oldest->now.sequence, oldest->summary);
      remove(*oldest);
      result = advanced::moved;
    }
    if (o.has_failed) [[unlikely]]  // after its last step: in a flush, or in another thread's work on its views
      throw_if_failed();
    return advanced::finished;
  }
  void remove(operation& o) {
    (o.previous ? o.previous->next : oldest) = o.next;
    (o.next ? o.next->previous : newest) = o.previous;
    if (o.is_point_to_point()) pairs->remove(o);
    if (!newest) ends();
    if (std::exchange(o.previous, nullptr)) return;
    if (!o.is_point_to_point())
      for (operation* i = oldest; i && i->is_point_to_point(); i = i->next) i->is_up = true;
    if (newest && !oldest->is_point_to_point()) flight->begin(oldest->now.sequence, oldest->summary, oldest->tag);
  }

  /// The operation that `o` waits for: itself, an earlier one with the same peer, or the oldest operation.
  operation& blocker_of(operation& o) { return o.is_point_to_point() && o.is_up ? pairs->blocker_of(o) : *oldest; }
  /// Calls f(p, s) with the wait that `o` depends on. If an earlier operation that `o` waits for has a longer timeout,
  /// the timeout of `o` applies, and starts anew with each such operation: while they all progress, a caller that waits
  /// for the last of them is not late.
  void with_deadline(operation& o, auto f) {
    operation& turn = blocker_of(o);
    const operation* const blocker = o.now.timeout < turn.now.timeout ? &turn : nullptr;
    if (std::exchange(o.blocker, blocker) != blocker) [[unlikely]]
      o.waiting = {};
    if (!blocker) return f(turn.waiting, turn.now);
    wait_context s = turn.now;
    s.timeout = o.now.timeout;
    s.deadline_of = &o.now;
    const auto change_clocks = [&] {
      std::swap(o.waiting.since, turn.waiting.since);
      std::swap(o.waiting.excused, turn.waiting.excused);
    };
    change_clocks();
    f(turn.waiting, s);
    change_clocks();
  }

  using failing<engine>::mark_reported, failing<engine>::reporting, failing<engine>::taking_back,
      failing<engine>::take_back;
  /// An exception from an operator, a view or the transport breaks the communicator: its messages are in flight. `o`
  /// has stopped half-way and does not continue, even if another operation is waited for.
  auto guard(operation& o, auto&& work) {
    try {
      const core::scoped_value here{transport::current_call, &o.now};
      return work();
    } catch (const error& e) {
      o.has_failed = true;
      pair_at_work = nullptr;
      this->break_by(o, e);
    } catch (...) {
      o.has_failed = true;
      pair_at_work = nullptr;
      this->break_by_exception(o);
      throw;
    }
  }
  void throw_if_failed() {
    if (const failure* const f = transport.failed()) [[unlikely]]
      this->throw_failure(*f);
  }
  /// While the result lives, `o` progresses on the transport's device, whichever is current where it is waited for, or
  /// where another communicator's wait progresses it.
  auto make_current([[maybe_unused]] operation& o) {
    if constexpr (WorksOnDevice<T>) return guard(o, [&] { return transport.make_current(); });
    else return nullptr;
  }

  /// Fruitless polls in a row after which a loop around `test` yields the core.
  static constexpr int polls_in_a_row = 64;

  bool test(operation& o) {
    take_over();
    return taking_back(o, [&] {
      [[maybe_unused]] const auto current = make_current(o);
      const auto a = advance(o);
      flush(o);
      if (a == advanced::stuck)
        with_deadline(o, [&](backoff& waiting, const wait_context& s) {
          flight->wait(waiting, s);
          if (transport::progress_others(this) != transport::progress::moved) {
            if (waiting.tests < polls_in_a_row) ++waiting.tests;
            else ::sched_yield();
          }
          const core::scoped_value here{transport::current_call, &s};
          reporting([&] { transport.check(waiting, s); });
        });
      return a == advanced::finished;
    });
  }

  void wait(operation& o) {
    take_over();
    taking_back(o, [&] {
      [[maybe_unused]] const auto current = make_current(o);
      for (;;) {
        switch (advance(o)) {
          case advanced::finished: return flush(o);
          case advanced::stuck: with_deadline(o, [&](backoff& p, const wait_context& s) { relax(p, s); }); break;
          case advanced::moved: break;
        }
      }
    });
  }

  void wait_or_abandon(operation& o) {
    core::with_rollback([&] { wait(o); }, [&] { abandon(o); });
  }

  void relax(operation& o) { relax(o.waiting, o.now); }
  void relax(backoff& p, const wait_context& s) {
    flight.wait(p, s);
    const core::scoped_value here{transport::current_call, &s};
    reporting([&] { transport::relax(transport, p, s, this); });
  }

  /// Progresses this engine while its thread waits on another communicator, which must not get this one's errors.
  static transport::progress go_on(transport::progress_client& d) noexcept {
    auto& e = static_cast<engine&>(d);
    if (!e.newest || e.is_advancing || e.deferred || e.transport.failed()) return transport::progress::none;
    const bool had_reported = e.has_reported;
    try {
      operation& o = *e.newest;
      [[maybe_unused]] const auto current = e.make_current(o);
      const auto a = e.advance(o);
      e.flush(o);
      if (a != advanced::stuck) return transport::progress::moved;
      const operation& turn = e.blocker_of(o);
      e.flight->poll(turn.waiting, turn.now, backoff::clock::now());  // it waits here, too: another rank is late
      return transport::progress::stuck;
    } catch (...) {
      e.deferred = std::current_exception();
      error::clear_thrown();
      e.keep_unreported(had_reported);
      return transport::progress::none;
    }
  }

  /// Waits, then calls `epilogue`; throws nothing. Returns whether both succeeded. A failure not yet reported to the
  /// caller is reported by the next call, or by the launcher of this rank.
  bool wait_noexcept(operation& o, auto epilogue) noexcept {
    const bool had_reported = has_reported;
    try {
      if (!o.finished) wait(o);
      epilogue();
      return true;
    } catch (...) {  // NOLINT: the communicator keeps the cause
      keep_unreported(had_reported);
      return false;
    }
  }
  /// The caller does not get the error that was just caught.
  void keep_unreported(bool had_reported) noexcept {
    if (const failure* f = transport.failed(); f && !had_reported) unreported->keep(this, *f);
    has_reported = had_reported;
  }

  /// No peer may sleep waiting for data that this rank has already sent while it does something else.
  void flush() {
    if constexpr (Flushable<T>) transport.flush();
  }
  /// What `o` has put there last goes wrong here, if it does.
  void flush(operation& o) {
    if constexpr (Flushable<T>) guard(o, [&] { transport.flush(); });
  }

  /// Begins a call in which the transport itself moves data.
  [[nodiscard]] auto begin_alone(const char* call) { return transport_call{*this, call}; }
  /// Waits for all started operations: what the transport does by itself must not overtake them.
  void finish_all() {
    take_over();
    acquire_turn();
    while (newest) wait(*newest);
    throw_if_failed();
  }

  /// Removes an operation that will not finish any more. Later ones stop, too: their pieces would come in its place.
  void abandon(operation& o) noexcept {
    take_over();
    take_back(o);
    if (!o.previous && oldest != &o) return;  // not in the queue
    for (operation* later = o.next; later && !later->is_stopped; later = later->next)
      later->has_failed = later->is_stopped = true;
    remove(o);
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

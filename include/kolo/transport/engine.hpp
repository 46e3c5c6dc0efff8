// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What drives a transport: the queue of operations that were started on it, what they do when something fails, and what they use again and again.
#pragma once

#include <kolo/transport/comparison.hpp>
#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/operation.hpp>
#include <kolo/transport/pool.hpp>
#include <kolo/transport/transport.hpp>
#include <kolo/transport/tuning.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace kolo::inline v0::detail {

/// While it lives, no second one can be made: so, in checked mode, of two threads that call on one communicator at once the second is told, if the first is
/// still waiting for the other ranks to say what they call.
class one_caller {
 public:
  one_caller(bool& is_there, const char* call, int rank) : is_there_{is_there} {
    if (is_there_.exchange(true, std::memory_order_acq_rel))
      throw error{failure_in({.operation = call}, errc::invalid_argument, rank, {},
                             "another thread of this rank calls on the same communicator: use it from one thread at a time, or give each its own (split)")};
  }
  one_caller(const one_caller&) = delete;
  one_caller& operator=(const one_caller&) = delete;
  ~one_caller() { is_there_.store(false, std::memory_order_release); }

 private:
  std::atomic_ref<bool> is_there_;
};

/// The part of a communicator that operations refer to: it stays where it is when the communicator moves.
template <Transport T>
struct engine {
  using memory = decltype(memory_of(std::declval<const T&>()));

  pool<> books{};          ///< the running operation's notes
  pool<memory> blocks{};   ///< its intermediate blocks
  pool<memory> staging[2]{};  ///< its messages; like the others they outlive the transport, which may still be writing there
  notebook notes{};        ///< about schedules
  pool<> choices{};        ///< of algorithms
  mutable std::shared_ptr<void> by_nodes{};  ///< those that depend on where the ranks are
  bool has_chosen = false; ///< from then on the tables below stay as they are
  std::unique_ptr<const tuning> named{}, fitted{};  ///< by the user; in this run
  pool<> plans{};          ///< of small calls
  comparison_room compared{};  ///< with other ranks
  T transport;
  flight_log flight{transport};
  std::uint64_t sequence = 0;
  bool is_comparing = false;  ///< an atomic_ref's
  bool is_checked = detail::is_checked(transport);  ///< before every call all ranks compare what they call
  operation* oldest = nullptr;
  operation* newest = nullptr;

  template <class... Args>
  explicit engine(Args&&... args) : transport(std::forward<Args>(args)...) {}

  /// Of the operation that comes next. What was started on another engine that this one takes turns with (see composite) has ended then.
  std::uint64_t next_number() {
    take_turn();
    return ++sequence;
  }
  void take_turn() {
    if constexpr (requires { transport.take_turn(sequence); }) transport.take_turn(sequence);
  }

  void enqueue(operation& o) {
    if (const failure* f = transport.failed()) throw error{*f};
    o.now.sequence = next_number();
    o.next = nullptr;
    o.finished = false;
    o.waiting = {};
    if (!newest) flight.begin(o.now.sequence, o.subject);
    (newest ? newest->next : oldest) = &o;
    newest = &o;
  }

  /// What comes before a call in checked mode.
  using comparison = detail::comparison<std::remove_reference_t<decltype(host_wire_of(std::declval<T&>()))>>;

  auto comparison_of(const char* call, const call_record& mine, std::chrono::nanoseconds timeout, flight_subject what) {
    return std::make_unique<comparison>(host_wire_of(transport), compared, call, mine, timeout, what);
  }
  /// The operation that is enqueued next gets the same number.
  void enqueue_before(operation& c) {
    enqueue(c);
    --sequence;
  }
  /// Waits until all ranks have said what they call next. Throws `mismatch` where that is not the same, and `invalid_argument` while another thread waits here.
  void compare(const char* call, const call_record& mine, std::chrono::nanoseconds timeout, flight_subject what = another) {
    const one_caller alone{is_comparing, call, transport.rank()};
    comparison c{host_wire_of(transport), compared, call, mine, timeout, what};
    enqueue_before(c);
    try {
      wait(c);
    } catch (...) {
      abandon(c);
      throw;
    }
  }

  /// Does what can be done without waiting, up to and with `o`.
  advanced advance(operation& o) {
    auto result = advanced::stuck;
    while (!o.finished) {
      const auto a = guard(*oldest, [&] { return oldest->advance(*oldest); });
      if (a != advanced::finished) {
        if (a == advanced::moved) oldest->waiting.something_happened();
        return a == advanced::moved ? a : result;
      }
      oldest->finished = true;
      flight.end(oldest->now.sequence, oldest->subject);
      oldest = oldest->next;
      if (oldest) flight.begin(oldest->now.sequence, oldest->subject);
      else newest = nullptr;
      result = advanced::moved;
    }
    return advanced::finished;
  }

  /// What is thrown on the way, by an operator, a view or the wire, breaks the communicator: its messages are under way.
  template <class F>
  auto guard(operation& o, F&& work) {
    try {
      return work();
    } catch (const error& e) {
      failure f = e.cause();
      if (f.rank < 0) f.rank = transport.rank();
      if (std::string_view{f.operation}.empty()) locate(f, o);
      if (!transport.failed()) break_off(o, f.text);
      else if constexpr (requires { transport.settle(f); }) transport.settle(f);
      throw error{f, e.buffers_in_use()};
    } catch (...) {
      if (!transport.failed()) break_off(o, "an exception ended its operation");
      throw;
    }
  }
  void break_off(const operation& o, std::string_view text) {
    failure f;
    f.code = errc::peer_failed;
    f.rank = f.peer = transport.rank();
    f.text = text;
    locate(f, o);
    transport.fail(f);
  }
  static void locate(failure& f, const operation& o) {
    f.round = o.now.round;
    f.sequence = o.now.sequence;
    f.operation = std::string_view{o.now.operation};
  }

  bool test(operation& o) {
    return taking_back(o, [&] {
      const auto a = advance(o);
      flush();
      if (a == advanced::stuck) {
        flight.own()->wait(oldest->waiting, oldest->now);
        transport.check(oldest->waiting, oldest->now);
      }
      return a == advanced::finished;
    });
  }

  void wait(operation& o) {
    taking_back(o, [&] {
      for (;;) {
        switch (advance(o)) {
          case advanced::finished: return flush();
          case advanced::stuck: relax(oldest->waiting, oldest->now); break;
          case advanced::moved: break;
        }
      }
    });
  }

  /// Where it fails, the views of `o` are its caller's again; or the error says that they are not.
  template <class F>
  auto taking_back(operation& o, F&& work) {
    try {
      return work();
    } catch (const error& e) {
      if (o.withdraw) o.withdraw(o);
      if (const auto n = detail::buffers_in_use(transport); n > 0) throw error{e.cause(), n};
      throw;
    } catch (...) {
      if (o.withdraw) o.withdraw(o);
      throw;
    }
  }

  void relax(patience& p, const situation& s) {
    flight.wait(p, s);
    transport.relax(p, s);
  }

  /// Nobody may sleep through what this rank has sent while it does something else.
  void flush() {
    if constexpr (requires { transport.flush(); }) transport.flush();
  }

  /// Waits for all that was started: what the transport does by itself must not overtake it.
  void finish_all() {
    take_turn();
    if (newest) wait(*newest);
    if (const failure* f = transport.failed()) throw error{*f};
  }

  /// Forgets an operation that will not finish any more.
  void abandon(operation& o) noexcept {
    if (o.withdraw) o.withdraw(o);
    operation* before = nullptr;
    for (operation* i = oldest; i; before = std::exchange(i, i->next)) {
      if (i != &o) continue;
      (before ? before->next : oldest) = o.next;
      if (newest == &o) newest = before;
      return;
    }
  }

  /// This rank refuses what its caller asked for. The others are told, since they wait for it.
  [[noreturn]] void refuse(const char* operation_name, const std::string& sentence) {
    failure f;
    f.code = errc::invalid_argument;
    f.rank = f.peer = transport.rank();
    f.sequence = sequence + 1;
    f.operation = std::string_view{operation_name};
    f.text = sentence;
    const error mine{f};
    f.code = errc::peer_failed;
    f.text = "refused its arguments, so the others cannot go on: " + sentence;
    if (transport.size() > 1) transport.fail(f);
    throw mine;
  }
};

}  // namespace kolo::inline v0::detail

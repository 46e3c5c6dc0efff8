// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What users hold: a transport, the queue of operations that were started on it, and memory that is used again and again.
#pragma once

#include <kolo/transport/comparison.hpp>
#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/operation.hpp>
#include <kolo/transport/transport.hpp>
#include <kolo/transport/tuning.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace kolo::inline v0 {

namespace detail {

/// Where elements lie that are neither in the user's views nor on the wire. A transport whose elements are not in the host's
/// memory brings hands of its own (see execute/hands.hpp), which allocate as well.
struct host_memory {
  static constexpr std::align_val_t alignment{64};
  struct release {
    void operator()(std::byte* p) const { ::operator delete(p, alignment); }
  };
  using allocation = std::unique_ptr<std::byte, release>;
  static allocation allocate(std::size_t bytes) { return allocation{static_cast<std::byte*>(::operator new(bytes, alignment))}; }
};

template <class T>
auto memory_of(const T& transport) {
  if constexpr (requires { transport.hands(); }) return transport.hands();
  else return host_memory{};
}

/// Memory that grows to its largest use and is then never allocated again. One operation at a time uses it.
template <class Memory = host_memory>
class pool {
 public:
  std::byte* at_least(std::size_t bytes, const Memory& memory = {}) {
    if (bytes > size_) {
      memory_ = {};
      memory_ = memory.allocate(bytes);
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  typename Memory::allocation memory_{};
  std::size_t size_ = 0;
};

/// What has been found out: a number for each of a few keys, which are not 0.
class notebook {
 public:
  template <class F>
  unsigned char of(std::uint64_t key, F find_out) {
    auto& note = notes_[(key * 0x9e3779b97f4a7c15u) >> 58];
    if (note.key != key) note = {key, find_out()};
    return note.what;
  }

 private:
  struct {
    std::uint64_t key = 0;
    unsigned char what = 0;
  } notes_[64];
};

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
      throw error{f};
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
    const auto a = advance(o);
    flush();
    if (a == advanced::stuck) {
      flight.own()->wait(oldest->waiting, oldest->now);
      transport.check(oldest->waiting, oldest->now);
    }
    return a == advanced::finished;
  }

  void wait(operation& o) {
    for (;;) {
      switch (advance(o)) {
        case advanced::finished: return flush();
        case advanced::stuck: relax(oldest->waiting, oldest->now); break;
        case advanced::moved: break;
      }
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

}  // namespace detail

/// A group of ranks that do collective operations together: the first argument of every collective. Several may live at once and
/// take turns in any order that is the same on all ranks. Use it from one thread at a time. Destroying it waits for nobody;
/// when an exception destroys it, the others get `errc::peer_failed` that names this rank.
/// After a failure every call on it fails at once, on every rank, with the first cause.
template <Transport T>
class communicator {
 public:
  using transport_type = T;
  using options = typename T::options;  ///< what may be said with one call: `{.timeout = 5s}`

  template <class... Args>
    requires std::constructible_from<T, Args...>
  explicit communicator(Args&&... args) : engine_{std::make_shared<detail::engine<T>>(std::forward<Args>(args)...)} {}

  int rank() const { return transport().rank(); }
  int size() const { return transport().size(); }
  int local_rank() const { return transport().place().local_rank; }  ///< among the ranks on this node
  int local_size() const { return transport().place().local_size; }
  int node_rank() const { return transport().place().node_rank; }
  int node_count() const { return transport().place().node_count; }

  /// Collective over all ranks. Those that say the same color make a communicator, ordered by key, then by rank. What was started
  /// before is waited for. A table that was named here (`use_tuning`) holds there as well, until another is named there; what was fitted does not.
  communicator split(int color, int key, const call_site& site = call_site::here()) {
    engine_->finish_all();
    if (engine_->is_checked) engine_->compare("split", detail::call_record{site}, transport().timeout());
    communicator part{transport().split(color, key)};
    hand_down(part);
    return part;
  }

  /// What is left of it, after a failure: collective over the ranks that are still there, which get a communicator of their own, numbered in the same order.
  /// Who has died, thrown or left is not in it, and neither is who does not come within `o.timeout` (0: the communicator's): that rank gets
  /// `errc::timeout` when it comes. Where a rank is lost meanwhile, they agree once more. This communicator stays broken, with its first cause; one
  /// that was whole is broken by it, so that who waits there hears of it. No operation survives: repeat what did not end on all ranks.
  ///     catch (const kolo::error&) { comm = comm.shrink({.timeout = 5s}); }
  /// Cost    of one deadline where a rank is there and does not come, else as long as the last one takes to come. The memory of the old one is given
  ///         back when the job ends.
  /// Errors  timeout: the others have gone on without this rank; invalid_argument: it has called this before, or the transport cannot (over MPI, NCCL,
  ///         and between nodes); out_of_resources: there is no memory for another communicator.
  communicator shrink(const options& o = {}) {
    static_assert(detail::Shrinking<T>, "kolo: this transport cannot shrink: it has no member shrink(timeout)");
    communicator rest{transport().shrink(o.timeout > o.timeout.zero() ? o.timeout : transport().timeout())};
    hand_down(rest);
    return rest;
  }

  T& transport() const { return engine_->transport; }
  const std::shared_ptr<detail::engine<T>>& engine() const { return engine_; }  ///< for the collectives

 private:
  void hand_down(communicator& part) const {
    if (engine_->named) part.engine_->named = std::make_unique<const tuning>(*engine_->named);
  }

  std::shared_ptr<detail::engine<T>> engine_;
};

namespace detail {
template <class T>
inline constexpr bool is_communicator = false;
template <class T>
inline constexpr bool is_communicator<communicator<T>> = true;
}  // namespace detail

template <class C>
concept Communicator = detail::is_communicator<std::remove_cvref_t<C>>;

}  // namespace kolo::inline v0

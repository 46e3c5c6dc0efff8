// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator that records what a rank sent, received and waited for, and when. Opt-in; adapt/chrome_trace.hpp draws
// it.
#pragma once

#include <kolo/config.hpp>
#include <kolo/observe/clock_offset.hpp>
#include <kolo/observe/engine_observer.hpp>
#include <kolo/os/tsc_clock.hpp>
#include <kolo/transport/abilities.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// A piece, a message or a wait. Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a host share, or of
/// the transport's own clock (`now()`).
struct alignas(64) trace_event {
  enum class what : std::uint8_t { sent, received, waited };

  std::int64_t begin = 0, end = no_time;  ///< no_time: not ended
  const char* operation = "";             ///< "": unknown
  std::uint64_t sequence = 0;             ///< 1-based index of the operation on this communicator, or with that peer
  std::uint64_t bytes = 0;
  std::uint64_t tag = 0;  ///< of the piece or message
  std::int32_t round = -1, peer = -1;
  what kind = what::sent;
};

/// The last events of a rank, in the order in which they were added: a ring of fixed size.
class trace_log {
 public:
  explicit trace_log(std::size_t events = 16 * 1024) : events_(std::max<std::size_t>(events, 1)) {}

  std::size_t size() const { return std::size_t(std::min<std::uint64_t>(count_ - first_, events_.size())); }
  std::uint64_t forgotten() const { return count_ - first_ - size(); }
  const trace_event& operator[](std::size_t i) const { return events_[(count_ - size() + i) % events_.size()]; }
  void forget() { first_ = count_; }

  /// Returns the number of the event. Allocates nothing.
  std::uint64_t add(const trace_event& e) {
    events_[next_] = e;
    if (++next_ == events_.size()) next_ = 0;
    if (events_.size() - next_ > ahead)
      KOLO_PREFETCH_TO_WRITE(reinterpret_cast<const char*>(&events_[next_ + ahead]));  // last written one lap ago
    return count_++;
  }
  /// The event added last; null after `forget`.
  trace_event* newest() { return size() == 0 ? nullptr : &events_[(next_ == 0 ? events_.size() : next_) - 1]; }
  /// The event of that number; null when it has been overwritten or forgotten.
  trace_event* find(std::uint64_t number) {
    return number < count_ && count_ - number <= size() ? &events_[number % events_.size()] : nullptr;
  }

 private:
  static constexpr std::size_t ahead = 8;  // a release store waits for those before it, which must not miss the cache

  std::vector<trace_event> events_;
  std::uint64_t count_ = 0, first_ = 0;  // events added so far; of these, dropped by `forget`
  std::size_t next_ = 0;                 // count_ modulo the size: a division takes as long as the rest of `add`
};

namespace detail::observe {
/// What the two specializations share. A rank that waits does not read the clock: the wait ends at the next event.
template <Transport Base>
class tracer : public Base, public virtual engine_observer {
 public:
  using abilities = kolo::abilities<>;  ///< none of its own; it has those of Base that it does not hide

  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit tracer(Args&&... args) : Base(std::forward<Args>(args)...) {}

  trace_log& log() { return log_; }
  const trace_log& log() const { return log_; }
  Base& untraced() { return *this; }

  void relax(backoff& p, const wait_context& s) {
    const auto* last = waits_ ? log_.newest() : nullptr;
    if (!last || last->sequence != s.sequence || last->round != s.round || last->peer != s.peer) {
      const auto begin = now();
      log_.add({begin, no_time, s.operation, s.sequence, 0, 0, s.round, s.peer, trace_event::what::waited});
      waits_ = true;
    }
    core::with_rollback([&] { Base::relax(p, s); }, [&] { now(); });
  }

 protected:
  /// Returns the time, which does not decrease, and ends the open wait.
  std::int64_t now() {
    if constexpr (SelfClocked<Base>) last_ = trace_time(untraced());
    else last_ = std::max(last_, clock_.now());
    if (std::exchange(waits_, false))
      if (auto* wait = log_.newest()) wait->end = last_;
    return last_;
  }

  std::uint64_t add_event(trace_event::what kind, int peer, std::size_t bytes, std::uint64_t tag, std::int64_t begin,
                          std::int64_t end) {
    const auto doing = running();
    return log_.add({begin, end, doing.operation, is_watching() ? doing.sequence : execute::sequence_of(tag), bytes,
                     tag, doing.round, peer, kind});
  }

 private:
  trace_log log_;
  os::tsc_clock clock_{};
  std::int64_t last_ = no_time;
  bool waits_ = false;  ///< the newest event is a wait that has not ended
};
}  // namespace detail::observe

/// Models MessageTransport, SlotTransport or SharedMemoryTransport, as `Base` does; of a transport with slots and
/// messages (`routed`) it traces the messages. Over messages an event lasts from the post until its end is seen; over
/// slots from `reserve` to `commit`, and from the first `peek` of a piece to its `release`; a half of an exchange,
/// which is short, is one moment. With `kolo::watch(comm)` events name operation and round; those of small calls, which
/// bypass the queue, have their number only.
/// Cost  two reads of the clock per event, one per moment, none while waiting; 64 bytes per event; none for a program
///       that does not use this type. A piece is recorded when the peer has it already, so it may seem to arrive some
///       nanoseconds before it was sent.
template <class Base>
class traced;

template <MessageTransport Base>
class traced<Base> : public detail::observe::tracer<Base> {
  using tracer = detail::observe::tracer<Base>;
  using tracer::add_event, tracer::now;

 public:
  struct ticket {
    typename Base::ticket inner{};
    std::uint64_t event = 0;
  };

  using tracer::tracer;

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    const auto event = add_event(trace_event::what::sent, peer, bytes, tag, now(), no_time);
    return {Base::send(peer, data, bytes, tag), event};
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    const auto event = add_event(trace_event::what::received, peer, bytes, tag, now(), no_time);
    return {Base::receive(peer, data, bytes, tag), event};
  }
  bool done(ticket& t) {
    if (!Base::done(t.inner)) return false;
    if (auto* e = this->log().find(t.event); e && e->end == no_time) e->end = now();
    return true;
  }
};

template <SlotTransport Base>
  requires(!MessageTransport<Base>)
class traced<Base> : public detail::observe::tracer<Base> {
  using tracer = detail::observe::tracer<Base>;
  using tracer::add_event, tracer::now;

 public:
  using tracer::tracer;

  std::byte* reserve(int peer) {
    auto* const slot = Base::reserve(peer);
    if (slot) begin(of(peer).out);
    return slot;
  }
  std::byte* reserve(int peer, std::size_t bytes) requires SharedMemoryTransport<Base> {
    auto* const slot = Base::reserve(peer, bytes);
    if (slot) begin(of(peer).out);
    return slot;
  }
  auto commit(int peer, std::size_t bytes, std::uint64_t tag) {
    const ended sent{*this, trace_event::what::sent, peer, bytes, tag, of(peer).out};
    return Base::commit(peer, bytes, tag);
  }
  received_slot peek(int peer) {
    const received_slot a = Base::peek(peer);
    if (a.data) begin(of(peer).in);
    return a;
  }
  void release(int peer) {
    const received_slot a = Base::peek(peer);
    const ended received{*this, trace_event::what::received, peer, a.bytes, a.tag, of(peer).in};
    Base::release(peer);
  }

  auto commit(int peer, std::size_t bytes, std::uint64_t tag,
              const indirect& where) requires SharedMemoryTransport<Base> {
    const ended sent{*this, trace_event::what::sent, peer, bytes, tag, of(peer).out};
    return Base::commit(peer, bytes, tag, where);
  }
  void post_exchange(int peer, std::size_t bytes, std::uint64_t tag) requires SharedMemoryTransport<Base> {
    Base::post_exchange(peer, bytes, tag);
    moment(trace_event::what::sent, peer, bytes, tag);
  }
  void end_exchange(int peer) requires SharedMemoryTransport<Base> {
    const received_slot a = Base::peek_exchange(peer);
    Base::end_exchange(peer);
    moment(trace_event::what::received, peer, a.bytes, a.tag);
  }
  void post_on_board(std::size_t bytes, std::uint64_t tag) requires HasBoard<Base> {
    Base::post_on_board(bytes, tag);
    if (bytes == 0) return;  // the data follows through slots
    for_each_peer([&](int reader) { moment(trace_event::what::sent, reader, bytes, tag); });
  }
  void end_board(bool all_posted) requires HasBoard<Base> {
    for_each_peer([&](int writer) {
      const received_slot a = Base::peek_board(writer);
      if (a.data && a.bytes > 0) moment(trace_event::what::received, writer, a.bytes, a.tag);
    });
    Base::end_board(all_posted);
  }

 private:
  struct moments {
    std::int64_t out = no_time, in = no_time;  // no_time: not begun
  };
  moments& of(int peer) { return since_[std::size_t(peer)]; }
  void begin(std::int64_t& since) {
    if (since == no_time) since = now();
  }
  void for_each_peer(auto f) {
    for (int peer = 0; peer < Base::size(); ++peer)
      if (peer != Base::rank()) f(peer);
  }
  void moment(trace_event::what kind, int peer, std::size_t bytes, std::uint64_t tag) {
    const auto time = now();
    add_event(kind, peer, bytes, tag, time, time);
  }
  /// The destructor adds the event at its own time, after the data is published: the peer does not wait for it.
  struct ended {
    traced& self;
    trace_event::what kind;
    int peer;
    std::size_t bytes;
    std::uint64_t tag;
    std::int64_t& since;
    ~ended() {
      const auto time = self.now(), began = std::exchange(since, no_time);
      self.add_event(kind, peer, bytes, tag, began == no_time ? time : began, time);
    }
  };

  std::vector<moments> since_ = std::vector<moments>(std::size_t(Base::size()));
};

/// From now on the events of this rank name their operation and round. Call it separately for each communicator that
/// `split` returns.
void watch(Communicator auto& comm) { comm.transport().watch(*comm.engine()); }

}  // namespace kolo::inline KOLO_ABI

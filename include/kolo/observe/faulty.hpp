// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator that injects planned faults: late and reordered pieces, a cut, a pause, the end of a rank. Opt-in.
#pragma once

#include <kolo/observe/engine_observer.hpp>
#include <kolo/transport/abilities.hpp>

#include <sched.h>

#include <chrono>
#include <concepts>
#include <csignal>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// The fault of a rank of a `faulty` transport.
enum class fault_kind : std::uint8_t {
  none,
  kill,   ///< the process of the rank ends by SIGKILL
  leave,  ///< the rank throws errc::system, which ends a rank that is a thread
  cut,    ///< from then on the rank receives nothing from `peer`
  pause   ///< the rank sleeps once, for `duration`
};

/// Which fault happens, and where. A step of a rank is a piece (over messages: a message) that it sends or has
/// received; the fault comes just before one. A rank with fewer steps in that round has no fault.
struct fault_plan {
  fault_kind what = fault_kind::none;
  int rank = 0;                 ///< the rank that has the fault
  std::uint64_t operation = 1;  ///< 1-based index of the collective; `send`, `receive` and `exchange` have no faults
  int round = -1;               ///< of the schedule; -1: any. Calls that run as one stream have round 0 only
  int step = 0;                 ///< how many steps come before it
  int peer = -1;                ///< cut: the peer from which nothing comes; -1: all
  std::chrono::milliseconds duration{1000};  ///< of a pause
  std::uint64_t seed = 0;  ///< not 0: each piece is seen 0 to 7 polls late, so pieces of several peers change order
};

namespace detail::observe {
/// What the two specializations share: the plan of one rank, and its progress.
template <Transport Base>
class fault_injector : public Base, public virtual engine_observer {
 public:
  using abilities = kolo::abilities<>;  ///< none of its own; it has those of Base that it does not hide

  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit fault_injector(Args&&... args) : Base(std::forward<Args>(args)...) {}

  void plan(const fault_plan& p) {
    plan_ = p;
    steps_ = 0;
    cut_ = pending_ = false;
    is_armed_ = p.what != fault_kind::none && p.rank == Base::rank();
    random_ = p.seed == 0 ? 0 : p.seed * 0x9e3779b97f4a7c15u + std::uint64_t(Base::rank()) + 1;
  }

  /// No notification follows a poll that has hidden a piece, so the rank must not sleep then.
  void relax(backoff& p, const wait_context& s) {
    if (!std::exchange(pending_, false)) return Base::relax(p, s);
    ::sched_yield();  // no check for failures: the sender may have left
  }

 protected:
  void step() {
    if (!is_armed_) return;
    const auto now = running();
    if (now.is_point_to_point || now.sequence != plan_.operation || (plan_.round >= 0 && now.round != plan_.round) ||
        steps_++ != plan_.step)
      return;
    is_armed_ = false;
    switch (plan_.what) {
      case fault_kind::none: break;
      case fault_kind::kill: std::raise(SIGKILL); break;
      case fault_kind::leave:
        throw error{failure{.rank = plan_.rank, .peer = plan_.rank, .text = "ends here, as its fault_plan says"}};
      case fault_kind::cut: cut_ = true; break;
      case fault_kind::pause: std::this_thread::sleep_for(plan_.duration); break;
    }
  }
  bool is_cut(int peer) const { return cut_ && (plan_.peer < 0 || plan_.peer == peer); }

  /// By how many polls the next piece is late.
  int draw() {
    if (random_ == 0) return 0;
    random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
    return int(random_ >> 32 & 7);
  }
  /// For a poll that finds a piece: whether to hide it, which counts `times` down.
  bool overlooks(int& times) {
    if (times == 0) return false;
    --times;
    return pending_ = true;
  }

 private:
  fault_plan plan_{};
  std::uint64_t random_ = 0;
  int steps_ = 0;
  bool is_armed_ = false, cut_ = false, pending_ = false;
};
}  // namespace detail::observe

/// Models MessageTransport, SlotTransport or SharedMemoryTransport, as `Base` does. It keeps all laws of the concept
/// until the fault happens: `kolo::inject_fault(comm, {.what = kolo::fault_kind::kill, .rank = 2, .round = 1})`.
/// Without a plan it injects nothing. Communicators that `split` returns have no plan, and `split` itself has no
/// faults. Of a transport that has slots and messages (`routed`) it affects the messages: decorate the parts instead.
template <class Base>
class faulty;

template <MessageTransport Base>
class faulty<Base> : public detail::observe::fault_injector<Base> {
  using fault_injector = detail::observe::fault_injector<Base>;
  using fault_injector::step, fault_injector::is_cut, fault_injector::overlooks, fault_injector::draw;

 public:
  using fault_injector::fault_injector;
  struct ticket {
    typename Base::ticket inner{};
    int from = -1;  ///< -1: a send
    std::uint64_t number = 0;
  };

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    step();
    return {Base::send(peer, data, bytes, tag)};
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    return {Base::receive(peer, data, bytes, tag), peer, of(peer).posted++};
  }
  bool done(ticket& t) {
    if (!Base::done(t.inner)) return false;
    if (t.from < 0 || t.number < of(t.from).completed) return true;
    if (is_cut(t.from) || overlooks(of(t.from).times)) return false;
    step();
    of(t.from) = {of(t.from).posted, t.number + 1, draw()};
    return true;
  }

 private:
  struct receipts {
    std::uint64_t posted = 0, completed = 0;
    int times = 0;  ///< by how many polls the oldest receive in flight is late
  };
  receipts& of(int peer) { return receipts_[std::size_t(peer)]; }

  std::vector<receipts> receipts_ = std::vector<receipts>(std::size_t(Base::size()));
};

template <SlotTransport Base>
  requires(!MessageTransport<Base>)
class faulty<Base> : public detail::observe::fault_injector<Base> {
  using fault_injector = detail::observe::fault_injector<Base>;
  using fault_injector::step, fault_injector::is_cut, fault_injector::overlooks, fault_injector::draw;

 public:
  using fault_injector::fault_injector;

  auto commit(int peer, std::size_t bytes, std::uint64_t tag) {
    step();
    return Base::commit(peer, bytes, tag);
  }
  received_slot peek(int peer) { return unless_overlooked(Base::peek(peer), peer, of(peer).piece); }
  void release(int peer) {
    step();
    Base::release(peer);
    of(peer).piece = draw();
  }

  auto commit(int peer, std::size_t bytes, std::uint64_t tag,
              const indirect& where) requires SharedMemoryTransport<Base> {
    step();
    return Base::commit(peer, bytes, tag, where);
  }
  const std::byte* returned(int peer, std::uint64_t number) requires SharedMemoryTransport<Base> {
    return is_cut(peer) ? nullptr : Base::returned(peer, number);
  }
  void post_exchange(int peer, std::size_t bytes, std::uint64_t tag) requires SharedMemoryTransport<Base> {
    step();
    Base::post_exchange(peer, bytes, tag);
  }
  received_slot peek_exchange(int peer) requires SharedMemoryTransport<Base> {
    return after_pieces(Base::peek_exchange(peer), peer, of(peer).exchange);
  }
  void end_exchange(int peer) requires SharedMemoryTransport<Base> {
    step();
    Base::end_exchange(peer);
    of(peer).exchange = draw();
  }
  void post_on_board(std::size_t bytes, std::uint64_t tag) requires HasBoard<Base> {
    step();
    Base::post_on_board(bytes, tag);
  }
  received_slot peek_board(int peer) requires HasBoard<Base> {
    return after_pieces(Base::peek_board(peer), peer, of(peer).board);
  }
  void end_board(bool all_posted) requires HasBoard<Base> {
    step();
    Base::end_board(all_posted);
    for (auto& each : times_) each.board = draw();
  }

 private:
  struct overlooking {
    int piece = 0, exchange = 0, board = 0;
  };
  overlooking& of(int peer) { return times_[std::size_t(peer)]; }
  received_slot unless_overlooked(const received_slot& a, int peer, int& times) {
    return !a.data || is_cut(peer) || overlooks(times) ? received_slot{} : a;
  }
  /// Hides what the peer sent after a piece as long as the piece is hidden.
  received_slot after_pieces(const received_slot& a, int peer, int& times) {
    if (a.data && Base::peek(peer).data && overlooks(of(peer).piece)) return {};
    return unless_overlooked(a, peer, times);
  }

  std::vector<overlooking> times_ = std::vector<overlooking>(std::size_t(Base::size()));
};

/// Sets the plan of this rank from now on. Call it on every rank with the same plan.
template <Communicator C>
  requires requires(C& comm, const fault_plan& plan) { comm.transport().plan(plan); }
void inject_fault(C& comm, const fault_plan& plan) {
  comm.transport().watch(*comm.engine());
  comm.transport().plan(plan);
}

}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator that counts messages and bytes per peer: the measured cost of a schedule, beside the computed one.
// Opt-in.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/transport/abilities.hpp>

#include <cstdint>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// Messages and bytes between two ranks. Over messages, each counts when it is posted. Over slots, each piece counts as
/// one message, when it is committed or released: a long message counts once per piece.
struct traffic {
  std::uint64_t messages_sent = 0;      ///< by this rank
  std::uint64_t bytes_sent = 0;         ///< by this rank
  std::uint64_t messages_received = 0;  ///< by this rank
  std::uint64_t bytes_received = 0;     ///< by this rank

  traffic& operator+=(const traffic& other) {
    messages_sent += other.messages_sent;
    bytes_sent += other.bytes_sent;
    messages_received += other.messages_received;
    bytes_received += other.bytes_received;
    return *this;
  }
  friend bool operator==(const traffic&, const traffic&) = default;
};

namespace detail::observe {
/// What the two specializations share: the counters of one rank.
template <Transport Base>
class ledger : public Base {
 public:
  using abilities = kolo::abilities<>;  ///< none of its own; it has those of Base that it does not hide

  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit ledger(Args&&... args) : Base(std::forward<Args>(args)...) {}

  /// Traffic with `peer` since construction, or since the last `forget`.
  const traffic& with(int peer) const { return with_[std::size_t(peer)]; }
  traffic total() const {
    traffic all;
    for (const traffic& t : with_) all += t;
    return all;
  }
  void forget() { with_.assign(with_.size(), {}); }

 protected:
  void count_sent(int peer, std::size_t bytes) {
    with_[std::size_t(peer)] += {.messages_sent = 1, .bytes_sent = bytes};
  }
  void count_received(int peer, std::size_t bytes) {
    with_[std::size_t(peer)] += {.messages_received = 1, .bytes_received = bytes};
  }

 private:
  std::vector<traffic> with_ = std::vector<traffic>(std::size_t(Base::size()));
};
}  // namespace detail::observe

/// Models MessageTransport or SlotTransport, as `Base` does; never SharedMemoryTransport, so that schedules run round
/// by round, as they are written. After a call, `comm.transport().total()` equals the `cost_of` of this call if the
/// number of its blocks divides the number of its elements.
template <class Base>
class counted;

template <MessageTransport Base>
class counted<Base> : public detail::observe::ledger<Base> {
  using ledger = detail::observe::ledger<Base>;
  using ledger::count_sent, ledger::count_received;

 public:
  using ledger::ledger;
  using typename Base::ticket;

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    count_sent(peer, bytes);
    return Base::send(peer, data, bytes, tag);
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    count_received(peer, bytes);
    return Base::receive(peer, data, bytes, tag);
  }
};

template <SlotTransport Base>
  requires(!MessageTransport<Base>)
class counted<Base> : public detail::observe::ledger<Base> {
  using ledger = detail::observe::ledger<Base>;
  using ledger::count_sent, ledger::count_received;

 public:
  using ledger::ledger;

  // Also hides the commit of a SharedMemoryTransport.
  void commit(int peer, std::size_t bytes, std::uint64_t tag) {
    count_sent(peer, bytes);
    Base::commit(peer, bytes, tag);
  }
  void release(int peer) {
    count_received(peer, Base::peek(peer).bytes);
    Base::release(peer);
  }
};

}  // namespace kolo::inline KOLO_ABI

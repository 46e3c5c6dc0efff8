// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator that counts what is really sent, peer by peer: what a schedule costs, measured instead of computed.
// Opt-in.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/transport/abilities.hpp>

#include <cstdint>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// What went from one rank to another and back. Over messages each is counted when it is posted; over slots each piece
/// counts as one, when it is committed and when it is released, so a long message is as many as it has pieces.
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
/// The books of one rank.
class ledger {
 public:
  explicit ledger(int size) : with_(static_cast<std::size_t>(size)) {}

  /// Since the beginning, or since `forget`.
  const traffic& with(int peer) const { return with_[static_cast<std::size_t>(peer)]; }
  traffic total() const {
    traffic all;
    for (const traffic& t : with_) all += t;
    return all;
  }
  void forget() { with_.assign(with_.size(), {}); }

 protected:
  void count_sent(int peer, std::size_t bytes) {
    with_[static_cast<std::size_t>(peer)] += {.messages_sent = 1, .bytes_sent = bytes};
  }
  void count_received(int peer, std::size_t bytes) {
    with_[static_cast<std::size_t>(peer)] += {.messages_received = 1, .bytes_received = bytes};
  }

 private:
  std::vector<traffic> with_;
};
}  // namespace detail::observe

/// Over a MessageTransport or a SlotTransport, of which it is a model, too; never a SharedMemoryTransport, so that
/// schedules run on it round by round, as they are written. `comm.transport().total()` after a call is that call's
/// `cost_of`, where its elements divide by the blocks.
template <class Base>
class counted;

template <MessageTransport Base>
class counted<Base> : public Base, public detail::observe::ledger {
 public:
  using abilities = kolo::abilities<>;  ///< those of Base that it does not hide
  using typename Base::options, typename Base::ticket;

  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit counted(Args&&... args) : Base(std::forward<Args>(args)...), ledger{Base::size()} {}

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
class counted<Base> : public Base, public detail::observe::ledger {
 public:
  using abilities = kolo::abilities<>;  ///< those of Base that it does not hide
  using typename Base::options;

  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit counted(Args&&... args) : Base(std::forward<Args>(args)...), ledger{Base::size()} {}

  // It hides the commit of a SharedMemoryTransport, too.
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

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator that counts what is really sent, peer by peer: what a schedule costs, measured instead of computed. Opt-in.
#pragma once

#include <kolo/transport/communicator.hpp>

#include <cstdint>
#include <vector>

namespace kolo::inline v0 {

/// What went from one rank to another and back. Over messages each is counted when it is posted; over slots each piece counts as
/// one, when it is committed and when it is released, so a long message is as many as it has pieces.
struct traffic {
  std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;

  traffic& operator+=(const traffic& other) {
    messages_sent += other.messages_sent;
    bytes_sent += other.bytes_sent;
    messages_received += other.messages_received;
    bytes_received += other.bytes_received;
    return *this;
  }
  friend bool operator==(const traffic&, const traffic&) = default;
};

namespace detail {
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
  void note_sent(int peer, std::size_t bytes) { with_[static_cast<std::size_t>(peer)] += {.messages_sent = 1, .bytes_sent = bytes}; }
  void note_received(int peer, std::size_t bytes) {
    with_[static_cast<std::size_t>(peer)] += {.messages_received = 1, .bytes_received = bytes};
  }

 private:
  std::vector<traffic> with_;
};
}  // namespace detail

/// Over a Messaging or a Slotted transport, of which it is a model, too; never a Pairing one, so that schedules run on it round by
/// round, as they are written. `comm.transport().total()` after a call is that call's `cost_of`.
template <class Wire>
class counted;

template <Messaging Wire>
class counted<Wire> : public Wire, public detail::ledger {
 public:
  using typename Wire::options, typename Wire::ticket;

  template <class... Args>
    requires std::constructible_from<Wire, Args...>
  explicit counted(Args&&... args) : Wire(std::forward<Args>(args)...), ledger{Wire::size()} {}

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    note_sent(peer, bytes);
    return Wire::send(peer, data, bytes, tag);
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    note_received(peer, bytes);
    return Wire::receive(peer, data, bytes, tag);
  }

  counted split(int color, int key) { return counted{Wire::split(color, key)}; }
  counted shrink(std::chrono::nanoseconds timeout) requires detail::Shrinking<Wire> { return counted{Wire::shrink(timeout)}; }
};

template <Slotted Wire>
  requires(!Messaging<Wire>)
class counted<Wire> : public Wire, public detail::ledger {
 public:
  using typename Wire::options;

  template <class... Args>
    requires std::constructible_from<Wire, Args...>
  explicit counted(Args&&... args) : Wire(std::forward<Args>(args)...), ledger{Wire::size()} {}

  // It hides the commit of a Pairing wire, too.
  void commit(int peer, std::size_t bytes, std::uint64_t tag) {
    note_sent(peer, bytes);
    Wire::commit(peer, bytes, tag);
  }
  void release(int peer) {
    note_received(peer, Wire::peek(peer).bytes);
    Wire::release(peer);
  }

  counted split(int color, int key) { return counted{Wire::split(color, key)}; }
  counted shrink(std::chrono::nanoseconds timeout) requires detail::Shrinking<Wire> { return counted{Wire::shrink(timeout)}; }
};

}  // namespace kolo::inline v0

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator that hides a wire's slots and offers messages instead: what MPI offers, over what threads and processes have.
#pragma once

#include <kolo/transport/communicator.hpp>
#include <kolo/transport/message_queues.hpp>

namespace kolo::inline v0 {

/// Over a Slotted transport; models Messaging and not Slotted. The reference for transports that carry messages: schedules run
/// over it exactly as they do over MPI, and need neither MPI nor a second machine to be tested.
template <Slotted Wire>
class messages : public Wire {
 public:
  using typename Wire::options;
  using ticket = detail::posted_ticket;

  template <class... Args>
    requires std::constructible_from<Wire, Args...>
  explicit messages(Args&&... args) : Wire(std::forward<Args>(args)...), queues_{Wire::size()} {}

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) { return queues_.send(peer, data, bytes, tag); }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) { return queues_.receive(peer, data, bytes, tag); }
  void submit() {
    queues_.progress(*this, [this](int peer) { disagree(peer); });
  }
  bool done(const ticket& t) {
    submit();
    return queues_.has_ended(t);
  }
  std::size_t piece_bytes() const { return Wire::slot_bytes(); }

  messages split(int color, int key) { return messages{Wire::split(color, key)}; }
  messages shrink(std::chrono::nanoseconds timeout) requires detail::Shrinking<Wire> { return messages{Wire::shrink(timeout)}; }

 private:
  using Wire::commit, Wire::peek, Wire::release, Wire::reserve, Wire::slot_bytes;  // hidden: the executor must not see slots

  [[noreturn]] void disagree(int peer) {
    failure f;
    f.code = errc::mismatch;
    f.rank = Wire::rank();
    f.peer = peer;
    f.text = detail::another_message_from(peer);
    throw error{Wire::fail(f)};
  }

  detail::message_queues<Wire> queues_;
};

}  // namespace kolo::inline v0

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator that hides the slots of a transport of threads or processes and offers messages instead, as MPI does.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/message_queues.hpp>

namespace kolo::inline KOLO_ABI {

/// `Base` is a SlotTransport; this models MessageTransport and not SlotTransport. It is the reference for message
/// transports: schedules run over it exactly as over MPI, so tests of them need neither MPI nor a second machine.
template <SlotTransport Base>
class messages : public Base {
 public:
  using abilities = kolo::abilities<>;  ///< none of its own; it has those of Base that it does not hide
  using ticket = detail::transport::posted_ticket;

  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit messages(Args&&... args) : Base(std::forward<Args>(args)...), queues_{Base::size()} {}

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    return queues_.send(peer, data, bytes, tag);
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    return queues_.receive(peer, data, bytes, tag);
  }
  void submit() {
    queues_.progress(*this, [this](int peer) { detail::transport::report_mismatch<Base>(*this, peer); });
  }
  bool done(const ticket& t) {
    submit();
    return queues_.has_ended(t);
  }
  std::size_t piece_bytes() const { return Base::slot_bytes(); }

 private:
  using Base::commit, Base::peek, Base::release, Base::reserve,
      Base::slot_bytes;  // hidden: the executor must not see slots

  detail::transport::message_queues<Base> queues_;
};

}  // namespace kolo::inline KOLO_ABI

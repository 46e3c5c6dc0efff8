// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In checked mode, all ranks compare what they call before every call, over the call's own transport.
#pragma once

#include <kolo/execute/call_signature.hpp>
#include <kolo/execute/operation.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/small_exchange.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Whether the environment sets `KOLO_CHECKED=1`.
inline bool is_checked_by_environment() {
  const char* const value = std::getenv("KOLO_CHECKED");
  return value && *value != '\0' && std::strcmp(value, "0") != 0;
}
/// A transport may set it itself.
template <Transport T>
bool is_checked(const T& transport) {
  if constexpr (ChecksCalls<T>)
    if (transport.is_checked()) return true;
  return is_checked_by_environment();
}

/// The messages; they belong to the communicator, so one that is in flight after a failure still has its buffer.
struct comparison_buffers {
  struct verdict {
    bool is_refused = false;
    failure why{};
  };
  call_signature signature{};
  verdict reply{};
};

/// The transport for bytes of the host: a transport for device views has a separate one.
template <Transport T>
auto& host_transport_of(T& transport) {
  if constexpr (HasHostTransport<T>) return transport.host_transport();
  else return transport;
}

/// The lowest 32 bits of the tag; no collective's fingerprint ends like this.
inline constexpr std::uint32_t comparison_mark = 0xffffffff;
inline constexpr transport::operation_summary comparison_marker{static_cast<kind>(0xff), 0, 0};  ///< no collective

/// An operation that precedes the call it checks, under the same number: every rank sends rank 0 its signature, rank 0
/// compares, and sends every rank the verdict. No rank continues before all have come. Cost: two messages for each rank
/// but 0; rank 0 receives p-1 and sends p-1.
/// Errors  mismatch, in the same words on every rank. A rank that does not come is late, or has left, as in every call;
///         the others only know that they wait for rank 0, so they allow it extra time to report the late rank.
template <Transport T>
class comparison final : public operation, public call_check {
 public:
  /// `call`: its name, a string that is never freed.
  comparison(T& transport, comparison_buffers& buffers, const char* call, const call_signature& mine,
             std::chrono::nanoseconds timeout, transport::operation_summary what)
      : transport_{transport}, buffers_{buffers}, mine_{mine}, is_numbered_{mine.sequence != 0} {
    mine_.collective = std::string_view{call};
    fingerprint = comparison_mark;
    summary = what;
    advance = [](operation& o) { return static_cast<comparison&>(o).go_on() ? advanced::finished : advanced::stuck; };
    now.operation = call;
    now.timeout = transport::bounded(timeout);
    if (transport.rank() != 0) now.timeout += std::min<std::chrono::nanoseconds>(timeout / 4, longest_grace);
  }

  operation& as_operation() override { return *this; }
  void restart() override {
    stage_ = stage::begin;
    refused_ = false;
  }

 private:
  static constexpr std::chrono::seconds longest_grace{1};
  enum class stage { begin, signatures, verdict };
  struct no_ticket {};
  template <class W>
  static auto ticket_of() {
    if constexpr (MessageTransport<W>) return typename W::ticket{};
    else return no_ticket{};
  }

  [[gnu::cold, gnu::noinline]] bool go_on() {
    if (const failure* f = transport_.failed()) throw error{*f};
    if (transport_.size() == 1) return true;
    if (stage_ == stage::begin) begin();
    if constexpr (ComparesCalls<T>) return transport_.compare(now.operation, mine_, now.timeout), true;
    else return transport_.rank() == 0 ? judge() : ask();
  }

  void begin() {
    stage_ = stage::signatures;
    if (!is_numbered_) mine_.sequence = now.sequence;
    buffers_.reply = {};
    buffers_.signature = mine_;
    now.peer = transport_.rank() == 0 ? 1 : 0;
    next_message();
  }

  /// Every rank but 0.
  bool ask() {
    if (stage_ == stage::signatures) {
      if (!put(&buffers_.signature, sizeof(call_signature))) return false;
      stage_ = stage::verdict;
      next_message();
    }
    return take(&buffers_.reply, sizeof buffers_.reply) && end();
  }

  /// Rank 0. The first rank that differs is named; all signatures are received, so that none is left on the wire.
  [[gnu::cold, gnu::noinline]] bool judge() {
    for (; stage_ == stage::signatures; next_peer(stage::verdict)) {
      if (!take(&buffers_.signature, sizeof(call_signature))) return false;
      if (const char* const what = difference(mine_, buffers_.signature); what && !refused_) {
        refused_ = true;
        buffers_.reply = {true, disagreement(mine_, 0, buffers_.signature, now.peer, what)};
      }
    }
    for (; now.peer < transport_.size(); next_peer(stage::verdict))
      if (!put(&buffers_.reply, sizeof buffers_.reply)) return false;
    return end();
  }
  void next_peer(stage after) {
    next_message();
    if (++now.peer < transport_.size() || stage_ == after) return;
    stage_ = after;
    now.peer = 1;
  }
  bool end() {
    if (buffers_.reply.is_refused) throw error{transport_.fail(buffers_.reply.why)};
    return true;
  }

  std::uint64_t tag() const { return message_tag(now.sequence, comparison_mark); }
  void next_message() {
    moved_ = 0;
    is_posted_ = false;
  }

  [[gnu::cold, gnu::noinline]] bool put(const void* data, std::size_t bytes) {
    const auto* const from = static_cast<const std::byte*>(data);
    if constexpr (MessageTransport<T>)
      if (!transport::has_slots(transport_))
        return has_ended([&] { return transport_.send(now.peer, from, bytes, tag()); });
    if constexpr (SlotTransport<T>) {
      while (moved_ < bytes) {
        const auto n = std::min(bytes - moved_, transport_.slot_bytes());
        auto* const to = transport::reserve(transport_, now.peer, n);
        if (!to) return false;
        std::memcpy(to, from + moved_, n);
        transport_.commit(now.peer, n, tag());
        moved_ += n;
      }
    }
    return true;
  }

  [[gnu::cold, gnu::noinline]] bool take(void* data, std::size_t bytes) {
    auto* const to = static_cast<std::byte*>(data);
    if constexpr (MessageTransport<T>)
      if (!transport::has_slots(transport_))
        return has_ended([&] { return transport_.receive(now.peer, to, bytes, tag()); });
    if constexpr (SlotTransport<T>) {
      const auto has_gone_on = [&](const received_slot& a) { does_not_compare(a); };
      while (moved_ < bytes) {
        const received_slot a = transport::peek_in_order(transport_, now.peer, has_gone_on);
        if (!a.data) return false;
        if (a.tag != tag() || a.bytes > bytes - moved_) does_not_compare(a);
        std::memcpy(to + moved_, a.data, a.bytes);
        moved_ += a.bytes;
        transport_.release(now.peer);
      }
    }
    return true;
  }

  bool has_ended(auto post) {
    if (!is_posted_) {
      ticket_ = post();
      transport_.submit();
      is_posted_ = true;
    }
    return transport_.done(ticket_);
  }

  [[noreturn, gnu::cold, gnu::noinline]] void does_not_compare(const received_slot& a) {
    std::string text = core::text_of({"rank ", transport_.rank(), " compares calls before they run, and rank ",
                                      now.peer, " does not: all ranks are checked, or none"});
    if (is_p2p_tag(a.tag))  // that call is compared with the other rank's part of it
      text = core::text_of({"rank ", transport_.rank(), " calls ", now.operation, ", rank ", now.peer, " calls ",
                            name(static_cast<kind>(a.tag & 0xff))});
    else if ((a.tag & comparison_mark) == comparison_mark && a.tag != transport::split_tag)
      text = core::text_of({"rank ", now.peer, " compares calls, too, but this is its call #", sequence_of(a.tag)});
    throw error{transport_.fail(failure_from(now, errc::mismatch, transport_.rank(), {}, text))};
  }

  T& transport_;
  comparison_buffers& buffers_;
  call_signature mine_;
  bool is_numbered_;  ///< by another communicator, for which this one compares
  stage stage_ = stage::begin;
  std::size_t moved_ = 0;  ///< bytes of the current message
  [[no_unique_address]] decltype(ticket_of<T>()) ticket_{};
  bool is_posted_ = false, refused_ = false;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks whose transport has slots notice that they do not all do the same.
#pragma once

#include <kolo/execute/collective_args.hpp>
#include <kolo/execute/engine.hpp>
#include <kolo/execute/pattern.hpp>
#include <kolo/transport/sentences.hpp>

#include <algorithm>
#include <string>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Bytes of the shortest piece that goes by reference: to copy a shorter one costs less than to claim it.
template <SlotTransport T>
std::size_t least_remote_bytes(const T& transport) {
  constexpr std::size_t usual = 4 * 1024;
  const auto slot = transport.slot_bytes();
  return slot < usual ? slot / 16 : std::min(usual, slot - slot / 16);
}

/// What the drivers over slots have in common. Every piece carries the operation's tag.
template <SlotTransport T>
class mismatch_checker {
 public:
  mismatch_checker(engine<T>& e, const collective_args& args, operation& o) : engine_{e}, args_{args}, operation_{o} {}

 protected:
  T& transport() { return engine_.transport; }
  wait_context& now() { return operation_.now; }
  std::uint64_t tag() const { return operation_.tag; }

  bool may_be_remote(std::size_t bytes) { return bytes >= least_remote_bytes(transport()); }

  /// A piece that was taken has been read, and replied to, to its end.
  void confirm(int peer) {
    if (!transport().still_claims(peer))
      throw error{*transport().failed()};  // its sender has failed, and may have written there meanwhile
  }

  received_slot poll(int peer, std::size_t elements) { return expected(transport().peek(peer), peer, elements); }
  received_slot expected(const received_slot& a, int peer, std::size_t elements) {
    if (!a.data) now().peer = peer;
    else if (a.tag != tag() || a.bytes != elements * args_.compute.wire_bytes) report_mismatch(peer, a);
    return a;
  }

  /// Between two ranks nobody else's pieces matter, nor do any to who only sends.
  bool may_be_stray(int peer) const {
    if (!operation_.is_pair()) return peer != engine_.transport.rank();
    return peer == operation_.peer && args_.collective != kind::send;
  }

  /// After a long wait: has anybody sent what this rank will never ask for? Whoever disagrees about the root, say, may
  /// have sent its pieces to others than those who wait. What belongs to later operations is no sign of it.
  void check_strays() {
    if (operation_.waiting.checked == strays_checked_) return;
    strays_checked_ = operation_.waiting.checked;
    for (int peer = 0; peer < transport().size(); ++peer) {
      if (!may_be_stray(peer)) continue;
      check_stray(peer, transport().peek(peer));
      if constexpr (SharedMemoryTransport<T>) check_stray(peer, transport().peek_exchange(peer)), check_ragged(peer);
      if constexpr (HasBoard<T>) check_stray(peer, transport().peek_board(peer));
      if constexpr (Observable<T>) check_tag(peer);
    }
  }
  /// Of an alltoall whose parts differ, ranks only know their own: this call's piece has come, but by a way that this
  /// rank's lengths exclude.
  void check_ragged(int peer) {
    if (!args_.receive_counts || args_.runs_as != pattern::exchange) return;
    const auto sent = args_.send_counts[peer] * args_.compute.element_bytes,
               awaited = args_.receive_counts[peer] * args_.compute.element_bytes;
    const bool exchanges = is_exchange(sent, awaited, transport().exchange_bytes());
    const auto check = [&](bool is_excluded, const received_slot& a) {
      if (is_excluded && a.data && a.tag == tag()) report_mismatch(peer, a);
    };
    check(exchanges || awaited == 0, transport().peek(peer));
    check(!exchanges, transport().peek_exchange(peer));
  }
  /// Two roots wait for each other, and neither has sent anything: what that rank has written down of this call.
  void check_tag(int peer) {
    const auto its = transport().recorder(peer);
    const auto theirs = its ? its->tag() : tag();
    const bool compares = (theirs & 0xff) == (comparison_mark & 0xff);  // and begins the call itself only then
    if (operation_.is_pair() || compares || sequence_of(theirs) != sequence_of(tag()) || theirs == tag()) return;
    report_mismatch(peer, {.tag = theirs});
  }
  void check_stray(int peer, const received_slot& a) {
    const auto theirs = sequence_of(a.tag), mine = sequence_of(tag());
    if (!a.data || a.tag == tag()) return;
    const bool is_other = a.tag == transport::split_tag || is_pair_tag(a.tag) || operation_.is_pair();
    if (!is_other && static_cast<std::int32_t>(theirs - mine) <= 0) report_mismatch(peer, a);  // numbers wrap
    // Whoever does something else has done its part before: had it sent what this rank waits for, it would be here by
    // the second time.
    if (is_other && peer == now().peer && std::exchange(doing_other_, peer) == peer) report_mismatch(peer, a);
  }

  /// Both do the same with each other.
  std::string difference(const received_slot& a) const {
    const auto theirs = sequence_of(a.tag), mine = sequence_of(tag());
    if (theirs != mine) return core::text_of({" has the tag ", theirs, ", and not ", mine});
    return " has elements of another type, or not as many";
  }

  [[noreturn]] void report_mismatch(int peer, const received_slot& a) {
    const auto theirs = sequence_of(a.tag), mine = sequence_of(tag());
    const auto other = static_cast<kind>(a.tag & 0xff);
    const char* const call = now().operation;
    std::string text = core::text_of({"this rank calls ", call, ", rank ", peer});
    if (operation_.is_pair() && is_pair_tag(a.tag) && (a.tag & 0xff) == (tag() & 0xff)) text += difference(a);
    else if (a.tag == transport::split_tag) text += " calls split, symmetric or the like";
    else if ((a.tag & comparison_mark) == comparison_mark)
      text += " compares calls before they run: all ranks are checked, or none";
    else if (other != args_.collective) core::append_words(text, {" calls ", name(other)});
    else if (theirs != mine) core::append_words(text, {" calls it as its operation #", theirs});
    else text += " calls it with another count, type, operator, algorithm, root or optimizer, now or in a call before";
    if (!engine_.is_checked) text += transport::which_rank_is_wrong;
    failure f;
    f.code = errc::mismatch;
    f.rank = transport().rank();
    f.peer = peer;
    f.round = now().round;
    f.sequence = now().sequence;
    f.operation = std::string_view{now().operation};
    f.text = text;
    throw error{transport().fail(f)};
  }

  engine<T>& engine_;
  const collective_args& args_;
  operation& operation_;
  backoff::clock::time_point strays_checked_{};
  int doing_other_ = -1;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

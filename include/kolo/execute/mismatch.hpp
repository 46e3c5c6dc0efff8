// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks over slots detect that they make different calls.
#pragma once

#include <kolo/execute/collective_args.hpp>
#include <kolo/execute/engine.hpp>
#include <kolo/execute/pattern.hpp>
#include <kolo/transport/sentences.hpp>

#include <algorithm>
#include <string>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Bytes of the shortest piece sent by reference: copying a shorter one costs less than claiming it.
std::size_t least_remote_bytes(const SlotTransport auto& transport) {
  constexpr std::size_t usual = 4 * 1024;
  const auto slot = transport.slot_bytes();
  return slot < usual ? slot / 16 : std::min(usual, slot - slot / 16);
}

/// The common base of the drivers over slots. Every piece carries the operation's tag.
template <SlotTransport T>
class mismatch_checker {
 public:
  mismatch_checker(engine<T>& e, const collective_args& args, operation& o) : engine_{e}, args_{args}, operation_{o} {}

 protected:
  T& transport() { return engine_.transport; }
  wait_context& now() { return operation_.now; }
  std::uint64_t tag() const { return operation_.tag; }

  bool may_be_remote(std::size_t bytes) { return bytes >= least_remote_bytes(transport()); }

  /// Called after a claimed piece has been read, and replied to, completely.
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

  /// In a pair operation only the peer's pieces matter, and none if this rank only sends.
  bool may_be_stray(int peer) const {
    if (!operation_.is_point_to_point()) return peer != engine_.transport.rank();
    return peer == operation_.peer && args_.collective != kind::send;
  }

  /// After a long wait: whether a rank has sent something that this rank will never ask for. A rank that disagrees
  /// about the root, for instance, may have sent its pieces to ranks that do not wait for them. Pieces of later
  /// operations are no sign of it.
  void check_strays() {
    if (operation_.waiting.checked != strays_checked_) check_strays_of_all();
  }
  [[gnu::cold, gnu::noinline]] void check_strays_of_all() {
    strays_checked_ = operation_.waiting.checked;
    did_other_ = std::exchange(does_other_, -1);
    for (int peer = 0; peer < transport().size(); ++peer) {
      if (!may_be_stray(peer)) continue;
      check_stray(peer, transport().peek(peer));
      if constexpr (SharedMemoryTransport<T>) check_stray(peer, transport().peek_exchange(peer)), check_ragged(peer);
      if constexpr (HasBoard<T>) check_stray(peer, transport().peek_board(peer));
      if constexpr (Observable<T>) check_tag(peer);
    }
  }
  /// In a ragged alltoall a rank only knows its own parts: this detects a piece of this call that came by a protocol
  /// that this rank's lengths exclude.
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
  /// Two roots may wait for each other without sending anything: compares the tags in their flight recorders.
  void check_tag(int peer) {
    const auto its = transport().recorder(peer);
    if (operation_.is_point_to_point()) return its ? check_collective(peer, *its) : void();
    const auto theirs = its ? its->tag() : tag();
    const bool compares = (theirs & 0xff) == (comparison_mark & 0xff);  // it begins the call itself afterwards
    if (compares || sequence_of(theirs) != sequence_of(tag()) || theirs == tag()) return;
    report_mismatch(peer, {.tag = theirs});
  }
  /// Whether the rank that this one waits for did something else at the check before, too. It has done its part before
  /// that: had it sent what this rank waits for, the polls since then would have found it. A first check may come
  /// between a poll and what the rank sends then.
  bool still_does_other(int peer) {
    if (peer != now().peer) return false;
    does_other_ = peer;
    return did_other_ == peer;
  }
  /// A rank that waits for this one in a collective that this one has not begun does something else.
  void check_collective(int peer, const transport::flight_recorder& its) {
    const auto n = its.last();
    const bool is_next = n.with < 0 && !n.has_ended && n.sequence > engine_.sequence;
    if (is_next && n.peer == transport().rank() && still_does_other(peer))
      report_mismatch(peer, {.tag = n.summary.what() == comparison_marker.what()
                                        ? transport::split_tag
                                        : message_tag(n.sequence, std::uint32_t(n.summary.what()))});
  }
  void check_stray(int peer, const received_slot& a) {
    const auto theirs = sequence_of(a.tag), mine = sequence_of(tag());
    if (!a.data || a.tag == tag()) return;
    const bool is_other = a.tag == transport::split_tag || is_p2p_tag(a.tag) || operation_.is_point_to_point();
    if (!is_other && std::int32_t(theirs - mine) <= 0) report_mismatch(peer, a);  // numbers wrap
    if (is_other && still_does_other(peer)) report_mismatch(peer, a);
  }

  /// Both ranks make the same call to each other.
  std::string difference(const received_slot& a) const {
    const auto theirs = sequence_of(a.tag), mine = sequence_of(tag());
    if (theirs != mine) return core::text_of({" has the tag ", theirs, ", and not ", mine});
    return " has elements of another type, or not as many";
  }

  [[noreturn, gnu::cold, gnu::noinline]] void report_mismatch(int peer, const received_slot& a) {
    const auto theirs = sequence_of(a.tag), mine = sequence_of(tag());
    const auto other = static_cast<kind>(a.tag & 0xff);
    const char* const call = now().operation;
    std::string text = core::text_of({"rank ", transport().rank(), " calls ", call, ", rank ", peer});
    if (operation_.is_point_to_point() && is_p2p_tag(a.tag) && (a.tag & 0xff) == (tag() & 0xff)) text += difference(a);
    else if (a.tag == transport::split_tag) text += " calls split, symmetric, fit or the like";
    else if ((a.tag & comparison_mark) == comparison_mark)
      text += engine_.is_checked ? " calls a collective"
                                 : " compares calls before they run: all ranks are checked, or none";
    else if (other != args_.collective) core::append_words(text, {" calls ", name(other)});
    else if (theirs != mine) core::append_words(text, {" calls it as its operation #", theirs});
    else text += " calls it with another count, type, operator, algorithm, root or optimizer, now or in a call before";
    if (!engine_.is_checked) text += transport::which_rank_is_wrong;
    throw error{transport().fail({.code = errc::mismatch,
                                  .rank = transport().rank(),
                                  .peer = peer,
                                  .round = now().round,
                                  .sequence = now().sequence,
                                  .operation = now().operation,
                                  .text = text})};
  }

  engine<T>& engine_;
  const collective_args& args_;
  operation& operation_;
  backoff::clock::time_point strays_checked_{};
  int does_other_ = -1, did_other_ = -1;  ///< the awaited rank, if it does something else; and at the check before
};

}  // namespace kolo::inline KOLO_ABI::detail::execute

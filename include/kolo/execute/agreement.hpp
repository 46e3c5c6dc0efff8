// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks whose wire has slots notice that they do not all do the same.
#pragma once

#include <kolo/execute/problem.hpp>
#include <kolo/transport/communicator.hpp>

#include <string>

namespace kolo::inline v0::detail {

/// What the drivers over slots have in common. Every piece carries the operation's tag.
template <Slotted T>
class agreeing {
 public:
  agreeing(engine<T>& e, const problem& job, operation& o) : engine_{e}, job_{job}, operation_{o} {}

 protected:
  T& wire() { return engine_.transport; }
  situation& now() { return operation_.now; }
  std::uint64_t tag() const { return operation_.tag; }

  /// Smaller pieces are copied sooner than agreed about.
  bool may_refer(std::size_t bytes) { return bytes >= wire().slot_bytes() / 16; }

  /// A piece that was taken has been read, and answered, to its end.
  void confirm(int peer) {
    if (!wire().keeps(peer)) throw error{*wire().failed()};  // its sender has failed, and may have written there meanwhile
  }

  arrived look(int peer, std::size_t elements) {
    return expected(wire().peek(peer), peer, elements);
  }
  arrived expected(const arrived& a, int peer, std::size_t elements) {
    if (!a.data) now().peer = peer;
    else if (a.tag != tag() || a.bytes != elements * job_.compute.wire_bytes) disagree(peer, a);
    return a;
  }

  /// After a long wait: has anybody sent what this rank will never ask for? Whoever disagrees about the root, say, may have sent
  /// its pieces to others than those who wait. What belongs to later operations is no sign of it.
  void look_around() {
    if (operation_.waiting.checked == looked_around_) return;
    looked_around_ = operation_.waiting.checked;
    for (int peer = 0; peer < wire().size(); ++peer) {
      if (peer == wire().rank()) continue;
      suspect(peer, wire().peek(peer));
      if constexpr (Pairing<T>) suspect(peer, wire().swapped(peer));
    }
  }
  void suspect(int peer, const arrived& a) {
    const auto theirs = a.tag >> 32, mine = tag() >> 32;
    if (!a.data || a.tag == tag()) return;
    if (theirs <= mine) disagree(peer, a);
    // Whoever splits has done its part before: had it sent what this rank waits for, it would be here by the second time.
    if (a.tag == split_tag && peer == now().peer && std::exchange(splitting_, peer) == peer) disagree(peer, a);
  }

  [[noreturn]] void disagree(int peer, const arrived& a) {
    const auto theirs = a.tag >> 32 & 0xffffffff, mine = tag() >> 32;
    const auto other = static_cast<kind>(a.tag & 0xff);
    std::string text = std::string{"this rank calls "} + now().operation + ", rank " + std::to_string(peer);
    if (a.tag == split_tag) text += " calls split";
    else if ((a.tag & comparison_mark) == comparison_mark) text += " compares calls before they run: all ranks are checked, or none";
    else if (other != job_.collective) text += " calls " + std::string{name(other)};
    else if (theirs != mine) text += " calls it as its operation #" + std::to_string(theirs);
    else text += " calls it with another count, type, operator, algorithm or root, now or in a call before";
    failure f;
    f.code = errc::mismatch;
    f.rank = wire().rank();
    f.peer = peer;
    f.round = now().round;
    f.sequence = now().sequence;
    f.operation = std::string_view{now().operation};
    f.text = text;
    throw error{wire().fail(f)};
  }

  engine<T>& engine_;
  const problem& job_;
  operation& operation_;
  patience::clock::time_point looked_around_{};
  int splitting_ = -1;
};

}  // namespace kolo::inline v0::detail

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator that hides a wire's slots and offers messages instead: what MPI offers, over what threads and processes have.
#pragma once

#include <kolo/transport/communicator.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

namespace kolo::inline v0 {

/// Over a Slotted transport; models Messaging and not Slotted. The reference for transports that carry messages: schedules run
/// over it exactly as they do over MPI, and need neither MPI nor a second machine to be tested.
template <Slotted Wire>
class messages : public Wire {
 public:
  using typename Wire::options;

  template <class... Args>
    requires std::constructible_from<Wire, Args...>
  explicit messages(Args&&... args) : Wire(std::forward<Args>(args)...), peers_(static_cast<std::size_t>(Wire::size())) {}

  /// The number of a message among those posted to or from its peer.
  struct ticket {
    int peer = 0;
    bool outgoing = false;
    std::uint64_t number = 0;
  };

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    return post(peer, true, {const_cast<std::byte*>(data), bytes, tag, false});
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) { return post(peer, false, {data, bytes, tag, false}); }
  void submit() { progress(); }
  bool done(const ticket& t) {
    progress();
    auto& l = lane(t.peer, t.outgoing);
    return t.number < l.finished;
  }
  std::size_t piece_bytes() const { return Wire::slot_bytes(); }

  messages split(int color, int key) { return messages{Wire::split(color, key)}; }

 private:
  struct posted {
    std::byte* data;
    std::size_t bytes;
    std::uint64_t tag;
    bool begun;
  };
  struct queue {
    std::deque<posted> waiting;
    std::uint64_t finished = 0;
  };
  struct pair_of_queues {
    queue out, in;
  };

  using Wire::commit, Wire::peek, Wire::release, Wire::reserve, Wire::slot_bytes;  // hidden: the executor must not see slots

  queue& lane(int peer, bool outgoing) {
    auto& both = peers_[static_cast<std::size_t>(peer)];
    return outgoing ? both.out : both.in;
  }
  ticket post(int peer, bool outgoing, posted what) {
    auto& l = lane(peer, outgoing);
    l.waiting.push_back(what);
    return {peer, outgoing, l.finished + l.waiting.size() - 1};
  }

  void progress() {
    for (int peer = 0; peer < Wire::size(); ++peer) {
      for (auto& l = lane(peer, true); !l.waiting.empty() && send_front(peer, l.waiting.front()); ++l.finished) l.waiting.pop_front();
      for (auto& l = lane(peer, false); !l.waiting.empty() && receive_front(peer, l.waiting.front()); ++l.finished) l.waiting.pop_front();
    }
  }
  bool send_front(int peer, posted& m) {
    while (m.bytes > 0 || !m.begun) {
      auto* to = Wire::reserve(peer);
      if (!to) return false;
      const auto n = std::min(m.bytes, Wire::slot_bytes());
      std::memcpy(to, m.data, n);
      Wire::commit(peer, n, m.tag);
      m = {m.data + n, m.bytes - n, m.tag, true};
    }
    return true;
  }
  bool receive_front(int peer, posted& m) {
    while (m.bytes > 0 || !m.begun) {
      const arrived a = Wire::peek(peer);
      if (!a.data) return false;
      if (a.tag != m.tag || a.bytes > m.bytes) disagree(peer);
      std::memcpy(m.data, a.data, a.bytes);
      m = {m.data + a.bytes, m.bytes - a.bytes, m.tag, true};
      Wire::release(peer);
    }
    return true;
  }

  [[noreturn]] void disagree(int peer) {
    failure f;
    f.code = errc::mismatch;
    f.rank = Wire::rank();
    f.peer = peer;
    f.text = "rank " + std::to_string(peer) + " does something else: another collective, count, type, operator, algorithm or root";
    throw error{Wire::fail(f)};
  }

  std::vector<pair_of_queues> peers_;
};

}  // namespace kolo::inline v0

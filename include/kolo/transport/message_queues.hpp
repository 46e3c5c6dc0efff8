// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages over slots: the messages posted to and from each peer, in pieces that fit into a slot.
#pragma once

#include <kolo/transport/sentences.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::transport {

/// First in, first out. Allocates only when it grows longer than `usual`, and than ever before.
template <class T>
class fifo {
 public:
  explicit fifo(std::size_t usual) { all_.reserve(usual); }
  bool is_empty() const { return first_ == all_.size(); }
  std::size_t size() const { return all_.size() - first_; }
  T& front() { return all_[first_]; }
  void push(const T& one) {
    if (all_.size() == all_.capacity() && first_ > 0)
      all_.erase(all_.begin(), all_.begin() + std::ptrdiff_t(std::exchange(first_, 0)));
    all_.push_back(one);
  }
  void pop() {
    if (++first_ < all_.size()) return;
    all_.clear();
    first_ = 0;
  }

 private:
  std::vector<T> all_;
  std::size_t first_ = 0;
};

/// The number of a message among those posted to or from its peer.
struct posted_ticket {
  int peer = 0;
  bool outgoing = false;
  std::uint64_t number = 0;
};

/// The messages in flight over the slots of `Base`.
template <SlotTransport Base>
class message_queues {
 public:
  explicit message_queues(int peers) : peers_(std::size_t(peers)) {}

  posted_ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    return post(peer, true, {const_cast<std::byte*>(data), bytes, tag, false});
  }
  posted_ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    return post(peer, false, {data, bytes, tag, false});
  }
  bool has_ended(const posted_ticket& t) { return t.number < queue_of(t.peer, t.outgoing).finished; }
  std::uint64_t moved() const { return moved_; }  ///< pieces so far

  /// Moves all that can be moved without waiting; calls `report_mismatch(peer)` if a piece is not of the awaited
  /// message.
  void progress(Base& transport, auto report_mismatch) {
    if (in_flight_ == 0) return;
    for (int peer = 0; peer < int(peers_.size()); ++peer) {
      auto &out = queue_of(peer, true), &in = queue_of(peer, false);
      while (!out.waiting.is_empty() && send_front(transport, peer, out.waiting.front())) finish(out);
      while (!in.waiting.is_empty() && receive_front(transport, peer, in.waiting.front(), report_mismatch)) finish(in);
    }
  }

 private:
  struct posted {
    std::byte* data;
    std::size_t bytes;
    std::uint64_t tag;
    bool begun;
  };
  struct queue {
    fifo<posted> waiting{4};
    std::uint64_t finished = 0;
  };

  queue& queue_of(int peer, bool outgoing) {
    auto& both = peers_[std::size_t(peer)];
    return outgoing ? both.first : both.second;
  }
  posted_ticket post(int peer, bool outgoing, const posted& what) {
    auto& q = queue_of(peer, outgoing);
    q.waiting.push(what);
    ++in_flight_;
    return {peer, outgoing, q.finished + q.waiting.size() - 1};
  }
  void finish(queue& q) {
    q.waiting.pop();
    ++q.finished;
    --in_flight_;
  }

  bool send_front(Base& transport, int peer, posted& m) {
    for (; m.bytes > 0 || !m.begun; ++moved_) {
      const auto n = std::min(m.bytes, transport.slot_bytes());
      auto* to = transport::reserve(transport, peer, n);
      if (!to) return false;
      std::memcpy(to, m.data, n);
      transport.commit(peer, n, m.tag);
      m = {m.data + n, m.bytes - n, m.tag, true};
    }
    return true;
  }
  bool receive_front(Base& transport, int peer, posted& m, auto& report_mismatch) {
    for (; m.bytes > 0 || !m.begun; ++moved_) {
      const received_slot a = transport.peek(peer);
      if (!a.data) return false;
      if (a.tag != m.tag || a.bytes > m.bytes) report_mismatch(peer);
      std::memcpy(m.data, a.data, a.bytes);
      m = {m.data + a.bytes, m.bytes - a.bytes, m.tag, true};
      transport.release(peer);
    }
    return true;
  }

  std::vector<std::pair<queue, queue>> peers_;  ///< to and from each
  std::size_t in_flight_ = 0;
  std::uint64_t moved_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::transport

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks in one process tell each other about memory on devices: where it lies, and from which point on it may be touched.
#pragma once

#include <kolo/cuda/runtime.hpp>
#include <kolo/transport/message_queues.hpp>
#include <kolo/transport/threads.hpp>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

namespace kolo::inline v0::cuda::detail {

/// What is shown to a peer, besides the memory itself.
struct shown {
  const event* ready;  ///< the owner's stream has come so far that the peer may touch it
  std::byte* out;      ///< more memory of as many bytes, for results; may be null
  int device;
};

/// What a peer has shown, and what belongs to this rank until it answers.
struct seen {
  shown what{};
  const std::byte* data = nullptr;
  std::byte* slot = nullptr;  ///< for the answer
};

/// Over the slots of threads. A rank shows memory together with an event of its stream. The peer makes its own stream wait for that event, puts
/// work there that touches the memory, and answers in the same slot with an event behind that work, for which the owner's stream waits in turn. So
/// everything happens in order, and the host waits for peers to say something, never for a device. A stream waits only for points
/// that were recorded before it was told so: no streams wait for each other in a circle.
///
/// Events are used again as slots are: whoever shows the n-th memory has heard the answer about the one `slots` before, so both streams were told to wait
/// for what they had to, and both events of that slot are free. An answer shares its event: the rank that gave it may be gone when it is read.
class exchange {
 public:
  using wire = threads::transport;

  explicit exchange(const wire& w) : edges_(static_cast<std::size_t>(w.size())), seen_(edges_.size()) {}

  /// False: no slot is free yet. Once true, the memory belongs to the peer until it has answered.
  bool show(wire& w, int peer, std::byte* data, std::size_t bytes, std::uint64_t tag, std::byte* out, cudaStream_t stream) {
    edge& e = edge_of(w, peer);
    auto* const place = e.shown - e.answered < w.slots() ? w.reserve(peer) : nullptr;
    if (!place) return false;
    auto& mine = e.mine[e.shown % w.slots()];
    mine.ready.record(stream);
    ::new (static_cast<void*>(place)) shown{&mine.ready, out, current_device()};
    mine.number = w.commit(peer, bytes, tag, {.from = w.refer(data ? data : place, bytes), .back = {}});
    ++e.shown;
    return true;
  }
  std::uint64_t shown_to(int peer) const { return of(peer).shown; }
  /// Answers that have been heard: from then on what is put on the stream comes after what the peer has done.
  std::uint64_t answered_by(int peer) const { return of(peer).answered; }

  bool is_awaiting() const {
    return std::any_of(edges_.begin(), edges_.end(), [](const edge& e) { return e.answered < e.shown; });
  }

  void hear(wire& w, int peer, cudaStream_t stream) {
    for (edge& e = of(peer); e.answered < e.shown;) {
      auto* const at = w.returned(peer, e.mine[e.answered % w.slots()].number);
      if (!at) return;
      auto& said = *reinterpret_cast<answer*>(const_cast<std::byte*>(at));
      const answer done = std::move(said);
      std::destroy_at(&said);
      ++e.answered;
      done->hold_back(stream);
    }
  }

  /// Has the peer shown something? `disagree(peer)` where it is not what is expected.
  template <class F>
  bool is_shown(wire& w, int peer, std::size_t bytes, std::uint64_t tag, F disagree) const {
    const arrived a = w.peek(peer);
    if (a.data && (a.tag != tag || a.bytes != bytes)) disagree(peer);
    return a.data != nullptr;
  }
  /// Takes what peers first ... last - 1 have shown, this rank left out; f(seen of each rank) puts work on it on the stream, behind what they had to
  /// do; then it is given back. False: one of them has withdrawn it, after a failure.
  template <class F>
  bool touch(wire& w, int first, int last, cudaStream_t stream, F f) {
    const auto each = [&](auto g) {
      bool all = true;
      for (int peer = first; peer < last && all; ++peer) all = peer == w.rank() || g(peer);
      return all;
    };
    const auto let_go = [&] { each([&](int peer) { return w.let_go(peer), true; }); };
    try {
      if (!each([&](int peer) { return take(w, peer, stream); })) return let_go(), false;
      f(seen_.data());
      return each([&](int peer) { return give_back(w, peer, stream), true; });
    } catch (...) {
      let_go();
      throw;
    }
  }

  /// After a failure: nothing that was shown is touched any more, but before what is put on the stream from now on.
  void withdraw(wire& w, cudaStream_t stream) noexcept {
    for (int peer = 0; peer < static_cast<int>(edges_.size()); ++peer) {
      if (of(peer).shown == of(peer).answered) continue;
      while (!w.withdraw(peer)) std::this_thread::yield();  // it is putting its work on its stream
      try {
        hear(w, peer, stream);
      } catch (...) {  // the device has failed as well
      }
      of(peer).answered = of(peer).shown;
    }
  }

 private:
  using answer = std::shared_ptr<const event>;
  static_assert(sizeof(shown) <= 32 && sizeof(answer) <= 32);  // where the smallest slot has room

  struct outgoing {
    event ready{};
    std::uint64_t number = 0;  ///< the wire's
  };
  struct edge {
    std::vector<outgoing> mine;   ///< by number, circular, as the slots are
    std::vector<answer> answers;  ///< to what the peer has shown
    std::uint64_t shown = 0, answered = 0, taken = 0;
  };

  edge& of(int peer) { return edges_[static_cast<std::size_t>(peer)]; }
  const edge& of(int peer) const { return edges_[static_cast<std::size_t>(peer)]; }
  /// With its events, which belong to the device that is current at its first use.
  edge& edge_of(const wire& w, int peer) {
    edge& e = of(peer);
    if (e.mine.empty()) {
      e.mine.resize(w.slots());
      for (std::size_t i = 0; i < w.slots(); ++i) e.answers.push_back(std::make_shared<const event>());
    }
    return e;
  }

  bool take(wire& w, int peer, cudaStream_t stream) {
    const arrived there = w.peek(peer), taken = w.take(peer);
    if (!taken.data) return false;
    const seen& s = seen_[static_cast<std::size_t>(peer)] = {*reinterpret_cast<const shown*>(there.data), taken.data, taken.back};
    s.what.ready->hold_back(stream);
    return true;
  }
  void give_back(wire& w, int peer, cudaStream_t stream) {
    edge& e = edge_of(w, peer);
    const answer& done = e.answers[e.taken++ % w.slots()];
    done->record(stream);
    ::new (static_cast<void*>(seen_[static_cast<std::size_t>(peer)].slot)) answer{done};
    w.release(peer);
  }

  std::vector<edge> edges_;
  std::vector<seen> seen_;
};

}  // namespace kolo::inline v0::cuda::detail

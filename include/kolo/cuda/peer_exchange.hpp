// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks of one host publish device memory to each other: where it lies, and from which point of a stream on it may
// be touched.
#pragma once

#include <kolo/cuda/runtime.hpp>
#include <kolo/transport/reclaim.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Memory that belongs to a peer until the peer has replied: `data`, `out` of as many bytes for results (may be null),
/// and the stream on which both are ready.
struct offer {
  std::byte* data;
  std::byte* out;
  std::size_t bytes;
  cudaStream_t stream;
};

/// A peer's offer, as this rank addresses it.
struct imported_memory {
  const std::byte* data = nullptr;
  std::byte* out = nullptr;
  std::byte* slot = nullptr;                 ///< of the transport, for the reply
  int device = -1;                           ///< as this process numbers it; -1: not needed
  const kolo::cuda::event* ready = nullptr;  ///< once the peer's stream has passed it, the memory may be touched
};

/// Uses the slots of a host's transport. A rank publishes memory together with a point on its stream. The peer makes
/// its own stream wait for that point, puts work there that touches the memory, and replies in the same slot with a
/// point after that work, for which the owner's stream waits in turn. So everything happens in order, and the host
/// waits for messages of its peers, never for a device. A stream waits only for points that are recorded already: no
/// streams wait for each other in a circle.
///
/// `PeerMemory` is how one rank sees another's memory and points: within a process (threads_transport.hpp), or between
/// processes (shm_transport.hpp).
///
/// * `publish(w, peer, k, place, offer)`: records a point on the offer's stream, and writes into slot k what the peer
///   must know; returns what the piece refers to
/// * `bytes(piece, peer, k)`: how many bytes are published there
/// * `import_memory(piece, taken, peer, k, stream)`: where the peer's memory lies, and its point; or nothing, where
///   the memory is not available before the stream has gone on, and the caller asks again. Makes no stream wait
/// * `complete(imported, peer, k, stream)`: records the point after the work
/// * `await_complete(place, peer, k, stream)`: makes the owner's stream wait for that point
///
/// Points are reused as slots are: a rank publishes its n-th memory after it has received the reply to the one `slots`
/// before. By then both streams wait for all that they must, and all points of that slot are free.
template <class PeerMemory>
class peer_exchange {
 public:
  using base_transport = typename PeerMemory::base_transport;

  /// Collective where the constructor of PeerMemory is.
  explicit peer_exchange(base_transport& w) : peer_memory_{w}, edges_(std::size_t(w.size())), imported_(edges_.size()) {
    for (edge& e : edges_) e.numbers.resize(w.slots());
  }

  PeerMemory& peer_memory() { return peer_memory_; }
  const PeerMemory& peer_memory() const { return peer_memory_; }

  /// False: no slot is free yet. Once true, the memory belongs to the peer until it has replied.
  bool publish(base_transport& w, int peer, const offer& what, std::uint64_t tag) {
    edge& e = of(peer);
    auto* const slot = e.published - e.replied < w.slots() ? w.reserve(peer) : nullptr;
    if (!slot) return false;
    const auto k = e.published % w.slots();
    const auto from = peer_memory_.publish(w, peer, k, slot, what);
    e.numbers[k] = w.commit(peer, PeerMemory::carries_bytes ? what.bytes : 0, tag, {.from = from, .back = {}});
    ++e.published;
    return true;
  }
  std::uint64_t published_to(int peer) const { return of(peer).published; }
  /// Replies that were received: work that is put on the stream from then on comes after the peer's work.
  std::uint64_t replied_by(int peer) const { return of(peer).replied; }

  bool is_awaiting() const {
    return std::any_of(edges_.begin(), edges_.end(), [](const edge& e) { return e.replied < e.published; });
  }

  void await_complete(base_transport& w, int peer, cudaStream_t stream) {
    for (edge& e = of(peer); e.replied < e.published;) {
      const auto k = e.replied % w.slots();
      auto* const at = w.returned(peer, e.numbers[k]);
      if (!at) return;
      ++e.replied;
      peer_memory_.await_complete(const_cast<std::byte*>(at), peer, k, stream);
    }
  }

  /// Whether the peer has published something; calls `report_mismatch(peer)` where tag or length are not those.
  bool is_published(base_transport& w, int peer, std::size_t bytes, std::uint64_t tag, auto report_mismatch) const {
    const received_slot a = w.peek(peer);
    if (a.data && (a.tag != tag || peer_memory_.bytes(a, peer, of(peer).taken % w.slots()) != bytes))
      report_mismatch(peer);
    return a.data != nullptr;
  }
  /// Takes the memory that peers first ... last - 1 have published, without this rank's; f(imported memory of each
  /// rank) puts work on it on the stream, after the work of its owners; then the memory is given back. False: the
  /// memory of one of them is not available yet; or never, as that peer has reclaimed it after a failure.
  bool consume(base_transport& w, int first, int last, cudaStream_t stream, auto f) {
    const auto each = [&](auto g) {
      bool all = true;
      for (int peer = first; peer < last && all; ++peer) all = peer == w.rank() || g(peer);
      return all;
    };
    const auto unclaim = [&] { each([&](int peer) { return w.unclaim(peer), true; }); };
    try {
      if (!each([&](int peer) { return take(w, peer, stream); }) ||
          !each([&](int peer) { return w.still_claims(peer); }))
        return unclaim(), false;
      each([&](int peer) { return imported_from(peer).ready->make_wait(stream), true; });
      f(imported_.data());
      return each([&](int peer) { return release(w, peer, stream), true; });
    } catch (...) {
      unclaim();
      throw;
    }
  }

  /// After a failure: reclaims published memory. Only work that comes before what is put on the stream from now on
  /// still touches it.
  void revoke(base_transport& w, cudaStream_t stream) noexcept {
    const auto start = backoff::clock::now();
    for (int peer = 0; peer < int(edges_.size()); ++peer) {
      if (of(peer).published == of(peer).replied) continue;
      transport::reclaim(w, peer, start);  // the peer may be putting its work on its stream
      try {
        await_complete(w, peer, stream);
      } catch (...) {  // the device has failed as well
      }
      of(peer).replied = of(peer).published;
    }
  }

 private:
  struct edge {
    std::vector<std::uint64_t> numbers{};  ///< the transport's, by number of ours: circular, as the slots are
    std::uint64_t published = 0, replied = 0, taken = 0;
  };

  edge& of(int peer) { return edges_[std::size_t(peer)]; }
  const edge& of(int peer) const { return edges_[std::size_t(peer)]; }
  imported_memory& imported_from(int peer) { return imported_[std::size_t(peer)]; }

  bool take(base_transport& w, int peer, cudaStream_t stream) {
    const received_slot there = w.peek(peer), taken = w.claim(peer);
    if (!taken.data) return false;
    const std::optional<imported_memory> at =
        peer_memory_.import_memory(there, taken, peer, of(peer).taken % w.slots(), stream);
    if (at) imported_from(peer) = *at;
    return at.has_value();
  }
  void release(base_transport& w, int peer, cudaStream_t stream) {
    peer_memory_.complete(imported_from(peer), peer, of(peer).taken++ % w.slots(), stream);
    w.release(peer);
  }

  PeerMemory peer_memory_;
  std::vector<edge> edges_;
  std::vector<imported_memory> imported_;
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport of ranks in one process whose views lie on devices.
#pragma once

#include <kolo/cuda/direct_transport.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/shm/slot_transport.hpp>

#include <map>
#include <memory>
#include <optional>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Threads share addresses and events. A rank writes what the peer must know into the transport's slot. A reply shares
/// ownership of its event: the rank that replied may be gone when the reply is read.
class in_process {
 public:
  using base_transport = threads::transport;
  static constexpr const char* communicator_name = "threads_communicator";
  static constexpr bool carries_bytes = true;  ///< a piece has its length

  explicit in_process(base_transport& w) : slots_{w.slots()}, edges_(std::size_t(w.size())) {}

  remote_ref publish(base_transport& w, int peer, std::size_t k, std::byte* slot, const offer& what) {
    const kolo::cuda::event& ready = edge_of(peer).ready[k];
    ready.record(what.stream);
    ::new (static_cast<void*>(slot)) published_address{&ready, what.out, kolo::cuda::current_device()};
    return w.make_remote_ref(what.data ? what.data : slot, what.bytes);
  }
  std::size_t bytes(const received_slot& piece, int /*peer*/, std::size_t /*k*/) const { return piece.bytes; }
  imported_memory import_memory(const received_slot& piece, const received_slot& taken, int /*peer*/, std::size_t /*k*/,
                                cudaStream_t /*stream*/) const {
    const published_address& s = *reinterpret_cast<const published_address*>(piece.data);
    return {taken.data, s.out, taken.back, s.device, s.ready};
  }
  void complete(const imported_memory& s, int peer, std::size_t k, cudaStream_t stream) {
    const done& mine = edge_of(peer).replies[k];
    mine->record(stream);
    ::new (static_cast<void*>(s.slot)) done{mine};
  }
  void await_complete(std::byte* slot, int /*peer*/, std::size_t /*k*/, cudaStream_t stream) const {
    auto& written = *reinterpret_cast<done*>(slot);
    const done theirs = std::move(written);
    std::destroy_at(&written);
    theirs->make_wait(stream);
  }

  bool kernels_reach_all() const {
    if (!kernels_reach_all_) kernels_reach_all_ = kolo::cuda::devices_reach_each_other();
    return *kernels_reach_all_;
  }
  /// Asks CUDA once for each device.
  cudaError_t enable_peer_access(int device) {
    const auto [known, is_new] = reached_.try_emplace(device);
    if (is_new) known->second = kolo::cuda::reach(device);
    return known->second;
  }

 private:
  using done = std::shared_ptr<const kolo::cuda::event>;
  struct published_address {
    const kolo::cuda::event* ready;  ///< once the owner's stream has passed it, the peer may touch the memory
    std::byte* out;
    int device;
  };
  static_assert(sizeof(published_address) <= 32 && sizeof(done) <= 32);  // the smallest slot has room for that
  struct edge {
    std::vector<kolo::cuda::event> ready{};
    std::vector<done> replies{};  ///< to what the peer has published
  };

  /// Makes its events at the first use, on the device that is current then.
  edge& edge_of(int peer) {
    edge& e = edges_[std::size_t(peer)];
    if (e.ready.empty()) {
      e.ready.resize(slots_);
      for (std::size_t i = 0; i < slots_; ++i) e.replies.push_back(std::make_shared<const kolo::cuda::event>());
    }
    return e;
  }

  std::size_t slots_;
  std::vector<edge> edges_;
  mutable std::optional<bool> kernels_reach_all_{};
  std::map<int, cudaError_t> reached_{};  ///< by device: why it is not
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport of ranks that are processes of one host, whose views lie on devices: they open each other's memory by
// CUDA's handles.
#pragma once

#include <kolo/cuda/direct_transport.hpp>
#include <kolo/cuda/ipc.hpp>
#include <kolo/launch/meet.hpp>
#include <kolo/launch/processes.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <optional>
#include <string>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Processes exchange handles in host memory that they share. A slot has one event, of the rank that publishes: the
/// peer waits for it, and records it again as its reply. So no rank waits for an event of a peer that may have gone
/// after its reply.
class between_processes {
 public:
  using base_transport = kolo::shm::transport;
  static constexpr const char* communicator_name = "shm_communicator";
  static constexpr bool carries_bytes = false;  ///< the piece carries nothing

  /// Collective: each rank opens some memory of all others, to check that it can.
  /// Errors  system: one rank cannot open another's; the same error on all ranks.
  explicit between_processes(base_transport& w)
      : rank_{w.rank()},
        slots_{w.slots()},
        edges_(std::size_t(w.size())),
        entries_{transport::in_the_name_of(
            communicator_name, [&] { return w.symmetric(edges_.size() * slots_ * sizeof(export_entry)); })} {
    try_all(w);
  }

  remote_ref publish(base_transport& w, int peer, std::size_t k, std::byte* slot, const offer& what) {
    const kolo::cuda::event& point = edge_of(peer).own[k];
    export_entry& c = entry_of(rank_, peer, k);
    c.data = exported_.export_address(what.data, what.bytes);
    c.out = exported_.export_address(what.out, what.bytes);
    c.bytes = what.bytes;
    point.record(what.stream);
    return w.make_remote_ref(slot, 0);
  }
  std::size_t bytes(const received_slot& /*piece*/, int peer, std::size_t k) const {
    return entry_of(peer, rank_, k).bytes;
  }
  std::optional<imported_memory> import_memory(const received_slot& /*piece*/, const received_slot& /*taken*/, int peer,
                                               std::size_t k, cudaStream_t stream) {
    const export_entry& c = entry_of(peer, rank_, k);
    edge& e = edges_[std::size_t(peer)];
    e.theirs.resize(slots_);
    if (!e.theirs[k]) e.theirs[k].emplace(c.point);
    const auto data = e.memory.open(c.data, stream), out = e.memory.open(c.out, stream);
    if (!data || !out) return std::nullopt;
    return imported_memory{*data, *out, nullptr, -1, &*e.theirs[k]};
  }
  void complete(const imported_memory& /*s*/, int peer, std::size_t k, cudaStream_t stream) {
    edges_[std::size_t(peer)].theirs[k]->record(stream);
  }
  void await_complete(std::byte* /*slot*/, int peer, std::size_t k, cudaStream_t stream) {
    edge_of(peer).own[k].make_wait(stream);
  }

  static bool kernels_reach_all() { return true; }                               ///< the constructor has checked it
  static cudaError_t enable_peer_access(int /*device*/) { return cudaSuccess; }  // opening memory enables it

  /// Closes the memory of the peers; no work touches it any more.
  void leave() {
    for (edge& e : edges_) e.memory.close_all();
  }

 private:
  struct export_entry {
    cudaIpcEventHandle_t point;
    exported_address data, out;
    std::uint64_t bytes;
  };
  struct edge {
    std::vector<kolo::cuda::event> own{};  ///< by slot, for this rank's memory; `theirs` for the peer's
    std::vector<std::optional<kolo::cuda::event>> theirs{};
    opened_memory memory{};
  };

  export_entry& entry_of(int owner, int reader, std::size_t k) const {
    return reinterpret_cast<export_entry*>(entries_.part(owner))[std::size_t(reader) * slots_ + k];
  }
  /// Makes its events at the first use, on the device that is current then.
  edge& edge_of(int peer) {
    edge& e = edges_[std::size_t(peer)];
    for (std::size_t k = e.own.size(); k < slots_; ++k) {
      e.own.emplace_back(cudaEventDisableTiming | cudaEventInterprocess);
      entry_of(rank_, peer, k).point = e.own.back().handle();
    }
    return e;
  }

  void try_all(base_transport& w) {
    kolo::cuda::device_memory token;
    auto own = shm::outcome_of([&] {
      token = kolo::cuda::allocate(1);
      entry_of(rank_, rank_, 0).data = exported_.export_address(token.get(), 1);
    });
    transport::small_barrier(w, communicator_name);
    const auto opened = shm::outcome_of([&] {
      for (int peer = 0; peer < w.size(); ++peer)
        if (peer != rank_) open_once(peer);
    });
    if (opened.has_failed) own = opened;
    for (const auto& r : transport::small_allgather(w, own, communicator_name))
      if (r.has_failed) throw error{w.fail(r.what)};  // ranks without all outcomes get this one
  }
  void open_once(int peer) const try {
    opened_memory theirs;
    theirs.open(entry_of(peer, peer, 0).data, nullptr);
    theirs.close_all();
  } catch (const error& e) {
    throw error{errc::system, "rank " + std::to_string(rank_) + " cannot use the device of rank " +
                                  std::to_string(peer) + ": " + std::string{std::string_view{e.cause().text}}};
  }

  int rank_;
  std::size_t slots_;
  std::vector<edge> edges_;
  exported_memory exported_{};
  detail::shm::parts entries_;
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

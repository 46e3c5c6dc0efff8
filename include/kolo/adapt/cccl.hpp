// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CCCL's algorithms on several GPUs take a communicator: one of kolo's as they want it. Opt-in; includes nothing of
// CCCL's.
#pragma once

#include <kolo/kolo.hpp>
#include <kolo/point_to_point.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// kolo::cccl_communicator c{comm};
/// auto guard = c.group_guard();
/// c.send(guard, pointer, count, peer, stream), c.recv(guard, pointer, count, peer, stream);
///
/// Models the concept of communicators in cuda/experimental/__multi_gpu/concepts.h (of 2026): what is said under a
/// guard goes on together, and the end of the guard waits for all of it, where NCCL's groups are submitted. A stream is
/// whatever has a `get()`, as cuda::stream_ref has.
///
/// Shapes  counts are elements of T, and bytes of `void`; `recvbuf` as in NCCL: count elements, or count for each rank.
/// Not     under one guard, as NCCL's groups take it: messages beside collectives, which run one after the other here
///         and would wait for each other, and a rank's message to itself. Both are refused by the call that says so.
/// Over    a communicator for device views: calls are put on the stream. Else pointers are of the host, and nothing
///         that is under way on the stream may touch what they point to.
/// Cost    that of kolo's calls; a guard allocates a request for each.
/// Errors  those of kolo's calls. What fails while a guard ends is said by the next call on the communicator, or by
///         `guard.wait()`, which throws it.
/// Before  `comm` outlives this and all guards. One rank a thread: a guard is of one communicator.
template <class Comm>
class cccl_communicator {
  using transport_type = typename Comm::transport_type;

 public:
  using native_handle_type = Comm*;

  /// The calls that were made under it.
  class group_guard_type {
   public:
    /// Until all have finished. Throws kolo::error when one failed.
    void wait() {
      for (auto& r : requests_) r.wait();
      requests_.clear();
    }

   private:
    friend cccl_communicator;
    /// Where all that is under way is of the same kind.
    void add(bool is_message, auto start) {
      if (!requests_.empty() && is_message != has_messages_)
        throw error{
            errc::invalid_argument,
            "messages and collectives under one guard would wait for each other: put each under a guard of its own"};
      requests_.push_back(start());
      has_messages_ = is_message;
    }
    bool has_messages_ = false;
    std::vector<request<transport_type>> requests_{};
  };

  explicit cccl_communicator(Comm& comm) : comm_{&comm} {}

  native_handle_type native_handle() const noexcept { return comm_; }
  std::int32_t rank() const noexcept { return comm_->rank(); }
  std::int32_t size() const noexcept { return comm_->size(); }
  group_guard_type group_guard() const { return {}; }

  template <class T, class Stream>
  void send(group_guard_type& g, const T* data, std::size_t count, std::int32_t peer, Stream stream) const {
    check_other(peer);
    g.add(true, [&] { return start_send(*comm_, bytes(data, count), peer, on(stream)); });
  }
  template <class T, class Stream>
  void recv(group_guard_type& g, T* data, std::size_t count, std::int32_t peer, Stream stream) const {
    check_other(peer);
    g.add(true, [&] { return start_receive(*comm_, bytes(data, count), peer, on(stream)); });
  }
  template <class T, class Op, class Stream>
  void reduce(group_guard_type& g, const T* sendbuf, T* recvbuf, std::size_t count, const Op& op, std::int32_t root,
              Stream stream) const {
    g.add(false, [&] {
      return start_reduce(*comm_, view(sendbuf, count), view(recvbuf, rank() == root ? count : 0), op, root,
                          on(stream));
    });
  }
  template <class T, class Op, class Stream>
  void all_reduce(group_guard_type& g, const T* sendbuf, T* recvbuf, std::size_t count, const Op& op,
                  Stream stream) const {
    g.add(false, [&] { return start_allreduce(*comm_, view(sendbuf, count), view(recvbuf, count), op, on(stream)); });
  }
  template <class T, class Stream>
  void gather(group_guard_type& g, const T* sendbuf, T* recvbuf, std::size_t count, std::int32_t root,
              Stream stream) const {
    g.add(false, [&] {
      return start_gather(*comm_, view(sendbuf, count), view(recvbuf, rank() == root ? all(count) : 0), root,
                          on(stream));
    });
  }
  template <class T, class Stream>
  void all_gather(group_guard_type& g, const T* sendbuf, T* recvbuf, std::size_t count, Stream stream) const {
    g.add(false, [&] { return start_allgather(*comm_, view(sendbuf, count), view(recvbuf, all(count)), on(stream)); });
  }
  /// On the root both buffers are one: kolo's broadcast has one.
  template <class T, class Stream>
  void broadcast(group_guard_type& g, const T* sendbuf, T* recvbuf, std::size_t count, std::int32_t root,
                 Stream stream) const {
    if (rank() == root && sendbuf != recvbuf)
      throw error{errc::invalid_argument, "a broadcast whose root has two buffers: kolo's has one, in place"};
    g.add(false, [&] { return start_broadcast(*comm_, view(recvbuf, count), root, on(stream)); });
  }
  template <class T, class Stream>
  void all_to_all(group_guard_type& g, const T* sendbuf, T* recvbuf, std::size_t count, Stream stream) const {
    g.add(false,
          [&] { return start_alltoall(*comm_, view(sendbuf, all(count)), view(recvbuf, all(count)), on(stream)); });
  }

 private:
  static constexpr bool is_on_device = requires { requires transport_type::space == memory_space::device; };

  void check_other(std::int32_t peer) const {
    if (peer == rank())
      throw error{errc::invalid_argument, "a rank exchanges no messages with itself: copy what would be sent"};
  }
  std::size_t all(std::size_t count) const { return count * static_cast<std::size_t>(size()); }

  template <class T>
  static auto view(T* data, std::size_t count) {
    using bytes = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    using element = std::conditional_t<std::is_void_v<T>, bytes, T>;
    if constexpr (is_on_device) return device_span<element>{static_cast<element*>(data), count};
    else return std::span<element>{static_cast<element*>(data), count};
  }
  /// What is between two ranks are bytes, whatever each calls them.
  template <class T>
  static auto bytes(T* data, std::size_t count) {
    using untyped = std::conditional_t<std::is_const_v<T>, const void, void>;
    if constexpr (!std::is_void_v<T>) count *= sizeof(T);
    return view(static_cast<untyped*>(data), count);
  }
  template <class Stream>
  static typename Comm::options on(Stream stream) {
    typename Comm::options o{};
    if constexpr (requires { o.stream = stream.get(); }) o.stream = stream.get();
    return o;
  }

  Comm* comm_;
};

}  // namespace kolo::inline KOLO_ABI

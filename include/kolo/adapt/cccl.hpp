// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A communicator as CCCL's algorithms on several GPUs take it. Opt-in; includes nothing of CCCL.
#pragma once

#include <kolo/kolo.hpp>
#include <kolo/point_to_point.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// kolo::cccl_communicator c{comm, cuda::experimental::logical_device{0}};
/// cuda::experimental::reduce(cuda::experimental::broadcasted, c, stream, pointer, count, result);
///
/// Models the concept of communicators in cuda/experimental/__multi_gpu/concepts.h (of 2026): calls under one guard
/// progress together, and the guard's destructor waits for all of them, at the point where NCCL submits its group. A
/// stream is any type with a `get()`, such as cuda::stream_ref. The algorithms also ask for `logical_device()`: it is
/// the second argument, which calls alone do not need.
///
/// Shapes  counts are elements of T, and bytes of `void`; `recvbuf` as in NCCL: count elements, or count for each rank.
/// Not     gather_v, which no algorithm calls. Under one guard, unlike in a group of NCCL: messages beside collectives,
///         which run one after the other here and would wait for each other; and a message from a rank to itself. The
///         call throws invalid_argument.
/// Over    a communicator for device views: calls are enqueued on the stream. Else pointers are of the host, and no
///         work in flight on the stream may access this memory.
/// Cost    that of kolo's calls; a guard allocates a request for each.
/// Errors  those of kolo's calls. A failure in a guard's destructor is reported by the next call on the communicator;
///         `guard.wait()` throws it itself.
/// Before  `comm` outlives this and all guards. One rank per thread: a guard belongs to one communicator.
template <class Comm, class Device = std::nullptr_t>
class cccl_communicator {
  using transport_type = typename Comm::transport_type;

 public:
  using native_handle_type = Comm*;

  /// The calls under one guard.
  class group_guard_type {
   public:
    /// Waits until all calls have finished. Throws kolo::error if one failed.
    void wait() {
      for (auto& r : requests_) r.wait();
      requests_.clear();
    }

   private:
    friend cccl_communicator;
    /// Starts a call. Throws invalid_argument if the calls in flight are of the other kind.
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

  explicit cccl_communicator(Comm& comm, Device device = {}) : comm_{&comm}, device_{device} {}

  native_handle_type native_handle() const noexcept { return comm_; }
  std::int32_t rank() const noexcept { return comm_->rank(); }
  std::int32_t size() const noexcept { return comm_->size(); }
  const Device& logical_device() const noexcept { return device_; }
  group_guard_type group_guard() const { return {}; }

  template <class T, class Stream>
  void send(group_guard_type& g, const T* data, std::size_t count, std::int32_t peer, Stream stream) const {
    check_other(peer);
    g.add(true, [&] { return start_send(*comm_, bytes(data, count), peer, on(stream)); });
  }
  void recv(group_guard_type& g, auto* data, std::size_t count, std::int32_t peer, auto stream) const {
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
  /// On the root both buffers must be the same: kolo's broadcast is in place.
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
  /// The part for rank r is `counts[r]` elements from element `displs[r]` on; counts are on the host. A rank's own part
  /// may be in place already.
  template <class T, class Stream>
  void all_to_all_v(group_guard_type& g, const T* sendbuf, const std::size_t* send_counts,
                    const std::size_t* send_displs, T* recvbuf, const std::size_t* recv_counts,
                    const std::size_t* recv_displs, Stream stream) const {
    const auto p = all(1), me = std::size_t(rank());
    std::vector<std::size_t> sent(send_counts, send_counts + p), received(recv_counts, recv_counts + p);
    if (sent[me] == received[me] && same_place(sendbuf, send_displs[me], recvbuf, recv_displs[me]))
      sent[me] = received[me] = 0;
    const auto in = parts(sendbuf, sent, send_displs);
    const auto out = parts(recvbuf, received, recv_displs);
    g.add(false, [&] {
      return start_alltoall(*comm_, bucket{std::span{in}}, bucket{std::span{out}}, sent, received, on(stream));
    });
  }
  template <class T, class Stream>
  void all_gather_v(group_guard_type& g, const T* sendbuf, std::size_t send_count, T* recvbuf,
                    const std::size_t* recv_counts, const std::size_t* displs, Stream stream) const {
    const std::vector<std::size_t> sent(all(1), send_count), at(all(1));
    all_to_all_v(g, sendbuf, sent.data(), at.data(), recvbuf, recv_counts, displs, stream);
  }

 private:
  static constexpr bool is_on_device = requires { requires transport_type::space == memory_space::device; };

  void check_other(std::int32_t peer) const {
    if (peer == rank())
      throw error{errc::invalid_argument, "a rank exchanges no messages with itself: copy what would be sent"};
  }
  std::size_t all(std::size_t count) const { return count * std::size_t(size()); }

  template <class T>
  static auto view(T* data, std::size_t count) {
    using bytes = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    using element = std::conditional_t<std::is_void_v<T>, bytes, T>;
    if constexpr (is_on_device) return device_span<element>{static_cast<element*>(data), count};
    else return std::span<element>{static_cast<element*>(data), count};
  }
  /// The parts that are not empty.
  template <class T>
  static auto parts(T* data, const std::vector<std::size_t>& counts, const std::size_t* displs) {
    std::vector<decltype(view(data, 0))> all;
    for (std::size_t r = 0; r < counts.size(); ++r)
      if (counts[r] != 0) all.push_back(view(data, displs[r] + counts[r]).subspan(displs[r], counts[r]));
    return all;
  }
  template <class T>
  static bool same_place(const T* a, std::size_t i, const T* b, std::size_t k) {
    return view(a, i).data() + i == view(b, k).data() + k;
  }
  /// Messages carry bytes: the two ranks may use different element types.
  template <class T>
  static auto bytes(T* data, std::size_t count) {
    using untyped = std::conditional_t<std::is_const_v<T>, const void, void>;
    if constexpr (!std::is_void_v<T>) count *= sizeof(T);
    return view(static_cast<untyped*>(data), count);
  }
  static typename Comm::options on(auto stream) {
    typename Comm::options o{};
    if constexpr (requires { o.stream = stream.get(); }) o.stream = stream.get();
    return o;
  }

  Comm* comm_;
  Device device_;
};

}  // namespace kolo::inline KOLO_ABI

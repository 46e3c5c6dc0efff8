// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device views over two transports as one: ranks of one node reach each other over the near one, such as NCCL, and all
// others over the far one, such as MPI.
#pragma once

#include <kolo/compose/near_ranks.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/forwarded.hpp>
#include <kolo/view/memory.hpp>

#include <optional>

namespace kolo::inline KOLO_ABI::cuda {

/// Its ranks are those of `Far`. As kolo::routed, for transports that both carry messages of devices; kolo::routed
/// needs a near transport with slots (host memory that sender and receiver both touch), and NCCL has none. With
/// `two_level<>{.nodes = kolo::topology_of(world)}` only messages between nodes take the far transport.
///     kolo::mpi::communicator world{MPI_COMM_WORLD};
///     auto here = kolo::shm::node_communicator(world);
///     kolo::cuda::set_device(world.local_rank());
///     kolo::communicator<kolo::cuda::routed<kolo::nccl::transport, kolo::cuda::on_device<kolo::mpi::transport>>> comm{
///         kolo::nccl::transport{here}, kolo::cuda::on_device<kolo::mpi::transport>{MPI_COMM_WORLD},
///         world.node_rank()};
///
/// Order    Both put their work on the stream that a call names; Far's executor touches the elements. In each round
///          Far's messages are posted first, so that data of theirs that the host must see is not queued after NCCL's
///          kernel. No ranks wait in a circle: a message of one round waits, on the host or on a stream, for messages
///          of earlier rounds only.
/// Failure  Far decides which one is the first, and both transports have it. A failure that Near found numbers ranks as
///          Far does.
/// Cost     of construction: a small exchange over Far, through its rank 0.
template <MessageTransport Near, MessageTransport Far>
  requires(space_of<Near> == memory_space::device && space_of<Far> == memory_space::device)
class routed {
 public:
  using abilities = kolo::abilities<ability::checks, ability::host_transport, ability::executor, ability::options,
                                    ability::flush, ability::token, ability::pipeline, ability::refusal>;
  static constexpr memory_space space = memory_space::device;
  using options = typename Far::options;
  /// One message under way: on the far transport, or on the near one.
  struct ticket {
    typename Far::ticket far{};
    typename Near::ticket near{};
    bool is_near = false;
  };

  /// Collective over `far`; `near` connects this rank with the ranks that pass the same `node`, in their order.
  /// Errors  invalid_argument: it does not.
  routed(Near near, Far far, int node)
      : far_{std::move(far)}, near_{std::move(near)}, near_ranks_{far_.host_transport(), node, "routed"} {
    near_ranks_.expect(near_.rank(), near_.size());
  }

  int rank() const { return far_.rank(); }
  int size() const { return far_.size(); }
  placement place() const { return near_ranks_.place(); }
  std::chrono::nanoseconds timeout() const { return far_.timeout(); }
  bool is_checked() const {
    if constexpr (ChecksCalls<Far>) return far_.is_checked();
    else return false;
  }
  auto& host_transport() { return far_.host_transport(); }
  const Near& near_transport() const { return near_; }

  // Failure and waiting.

  /// May take a second when this rank learns of a failure, until both transports have it.
  const failure* failed() const {
    if (first_) return &*first_;
    if (const failure* f = far_.failed()) fail_both(*f);
    else if (const failure* n = near_.failed()) fail_both(as_all_number_it(*n));
    return first_ ? &*first_ : nullptr;
  }
  const failure& fail(const failure& f) {
    if (!failed()) fail_both(detail::transport::with_peer_identity(far_.host_transport(), f));
    return *first_;
  }
  void relax(backoff& p, const wait_context& s) {
    agreed([&] {
      if (++polls_ % 64 == 0) poll_near();
      far_.relax(p, s);
    });
  }
  void check(backoff& p, const wait_context& s) {
    agreed([&] {
      poll_near();
      far_.check(p, s);
    });
  }
  /// Waits until all work on the stream has completed.
  void wait(const options& o = options{}) {
    far_.flush();
    agreed([&] { near_.wait(near_options(o)); });
  }

  // Calls.

  auto executor() const { return far_.executor(); }
  std::string refusal(auto& args) {
    const auto why = far_.refusal(args);
    return why.empty() ? near_.refusal(args) : why;
  }
  void begin(const options& o) {
    agreed([&] {
      far_.begin(o);
      near_.begin(near_options(o));
    });
  }
  void flush() {
    far_.flush();
    if (!first_) near_.submit();  // so that its point on the stream comes after Far's work as well
    near_.flush();
  }
  std::byte* token() { return far_.token(); }
  auto make_current() const requires WorksOnDevice<Far> { return far_.make_current(); }

  // Messages.

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    if (const int n = near_ranks_.near_of(peer); n >= 0) return {{}, near_.send(n, data, bytes, tag), true};
    return {far_.send(peer, data, bytes, tag), {}, false};
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    if (const int n = near_ranks_.near_of(peer); n >= 0) return {{}, near_.receive(n, data, bytes, tag), true};
    return {far_.receive(peer, data, bytes, tag), {}, false};
  }
  void submit() {
    agreed([&] {
      far_.submit();
      near_.submit();
    });
  }
  bool done(ticket& t) {
    return agreed([&] { return t.is_near ? near_.done(t.near) : far_.done(t.far); });
  }
  std::size_t piece_bytes() const { return far_.piece_bytes(); }
  std::size_t pieces_at_once() const {
    return 1;
  }  // NCCL's calls may block the host until the neighbours have made theirs

  // Groups.

  routed split(int color, int key) {
    return agreed([&] {
      Far far{far_.split(color, key)};
      return detail::transport::in_the_name_of("split", [&] {
        return routed{Near{near_.split(color, key)}, std::move(far), near_ranks_.own()};
      });
    });
  }

 private:
  typename Near::options near_options(const options& o) const {
    return {.timeout = o.timeout.count() == 0 ? timeout() : o.timeout, .stream = o.stream};
  }

  /// A wait in Far does not see NCCL's own errors.
  void poll_near() {
    backoff own;
    near_.check(own, {.timeout = timeout()});
  }

  /// A failure that one transport throws becomes the failure of both.
  auto agreed(auto f) {
    if (failed()) throw error{*first_};
    try {
      return f();
    } catch (const error&) {
      if (failed()) throw error{*first_};
      throw;
    }
  }
  /// As soon as this rank learns of it: neighbours may wait in Near, which does not report Far's failures.
  void fail_both(const failure& f) const {
    first_ = far_.fail(f);
    near_.fail(as_neighbours_number_it(*first_));
  }
  failure as_neighbours_number_it(failure f) const {
    for (auto* r : {&f.rank, &f.peer})
      if (*r >= 0) *r = near_ranks_.near_of(*r);
    return f;
  }
  failure as_all_number_it(failure f) const {
    if (f.rank >= 0 && f.rank < near_.size()) f.rank = near_ranks_.rank_of(f.rank);
    if (f.peer >= 0 && f.peer < near_.size()) f.peer = near_ranks_.rank_of(f.peer);
    return f;
  }

  mutable Far far_;
  mutable Near near_;
  detail::compose::near_ranks near_ranks_;
  mutable std::optional<failure> first_{};
  unsigned polls_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport of ranks of one host whose views lie on devices: memory goes from device to device, in the order of
// streams.
#pragma once

#include <kolo/core/own_process.hpp>
#include <kolo/cuda/deadline.hpp>
#include <kolo/cuda/direct.hpp>
#include <kolo/cuda/peer_exchange.hpp>
#include <kolo/cuda/work_stream.hpp>
#include <kolo/transport/message_queues.hpp>
#include <kolo/transport/small_exchange.hpp>

namespace kolo::inline KOLO_ABI::cuda {

/// Models MessageTransport, for device views, over ranks that all address each other's memory: on one device or
/// several. A message is one copy, which the receiver puts on its stream; it comes after the work on the sender's
/// stream, and work that the sender puts there afterwards comes after the copy. No host waits for a device: a call
/// returns when all its work is on the stream that it names, so work that is put there afterwards sees the result.
/// Hosts wait for each other, to learn where memory lies; deadlines and failures are those of the host's transport.
///
/// * The host waits for its stream by `wait`, which has a deadline; cudaStreamSynchronize has none.
/// * After an error the caller may use the tensors in work on the stream of that call, and on the host once it has
///   waited for that stream.
/// * The communicator works on the device that is current at its first call. Later calls need the same device to be
///   current; another one is an error that names both, as is a view in another device's memory. Requests and plans on a
///   stream that is not the default one may be waited for and run while another one is current, and the communicator
///   destroyed.
///
/// `PeerMemory` defines how ranks see each other's memory: threads_transport.hpp, shm_transport.hpp. (A template, as
/// the executor is, so that this header needs no kernels until they are used.)
template <class Batch, class PeerMemory>
class direct_transport : public PeerMemory::base_transport {
  using base_transport = typename PeerMemory::base_transport;

 public:
  using abilities =
      kolo::abilities<ability::shrink, ability::host_transport, ability::executor, ability::options, ability::token,
                      ability::flush, ability::pipeline, ability::tuning, ability::refusal, ability::device>;
  static constexpr memory_space space = memory_space::device;

  using options = call_options;
  using ticket = detail::transport::posted_ticket;

  /// Collective over the ranks of `host`, which stays usable; deadline, nodes and checked mode are those of `host`.
  explicit direct_transport(kolo::communicator<base_transport>& host, const direct_options& o = {})
      : direct_transport{
            detail::transport::in_the_name_of(PeerMemory::communicator_name,
                                              [&] { return std::move(host.split(0, host.rank()).transport()); }),
            o} {}

  direct_transport(direct_transport&&) noexcept = default;
  direct_transport& operator=(direct_transport&&) = delete;
  ~direct_transport() {
    if (queues_.empty() || is_forked_copy()) return;  // the first: moved from
    revoke();
    leave();
    if (failed()) work_.abandon();
  }

  using base_transport::failed, base_transport::rank, base_transport::size, base_transport::timeout;
  int device() const { return work_.device(); }  ///< -1 before the first call
  auto make_current() const { return work_.make_current(); }
  base_transport& host_transport() { return *this; }  ///< where bytes of the host can travel, between calls

  // Failure and waiting.

  const failure& fail(const failure& f) {
    const failure& first = base_transport::fail(f);
    revoke();
    return first;
  }
  void relax(backoff& p, const wait_context& s) {
    if (is_stream_awaited_) return detail::cuda::relax_for_stream(*this, p, s);
    with_revocation([&] { base_transport::relax(p, with_peer(s)); });
  }
  void check(backoff& p, const wait_context& s) {
    with_revocation([&] {
      if (is_stream_awaited_)
        detail::cuda::give_up_when_late(static_cast<base_transport&>(*this), p, s, "its own stream",
                                        detail::cuda::the_operation);
      base_transport::check(p, with_peer(s));
    });
  }

  /// Waits until all work on the stream has completed. A failure of any rank, or the deadline, ends the waiting, but
  /// not the work on the stream.
  void wait() { wait(options{}); }
  void wait(const options& o) {
    const event end = work_.end_on(o.stream);
    base_transport::flush();
    detail::cuda::wait_for_stream(*this,
                                  {.operation = "wait", .timeout = o.timeout.count() > 0 ? o.timeout : timeout()},
                                  detail::cuda::its_end, [&] { return end.has_passed(); });
  }

  // Calls.

  stream_executor<Batch> executor() const { return work_.executor(); }
  std::string refusal(const kolo::collective_args& args) {
    if (args.native && !kernels_reach_all())
      return "not all devices of this process can access each other's memory: name an algorithm";
    return work_.refusal(args);
  }
  /// Whether one kernel can touch the memory of all ranks; asks the devices once.
  bool kernels_reach_all() const { return peer_exchange_.peer_memory().kernels_reach_all(); }
  void begin(const options& o) { work_.go_on(o.stream); }
  std::byte* token() { return work_.token(); }
  /// Puts all that was asked for so far on the stream, and wakes peers that sleep until it is there.
  void flush() {
    work_.flush();
    base_transport::flush();
  }

  // Messages.

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    auto& q = queues_[std::size_t(peer)];
    q.sends.push({const_cast<std::byte*>(data), bytes, tag});
    return {peer, true, peer_exchange_.published_to(peer) + q.sends.size()};
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    auto& q = queues_[std::size_t(peer)];
    q.receives.push({data, bytes, tag});
    return {peer, false, q.received + q.receives.size()};
  }
  void submit() {
    auto* const stream = work_.use();
    is_stream_awaited_ = false;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank()) progress(peer, stream);
    if (together_.args && go_together(stream)) together_.args = nullptr;
  }
  bool done(const ticket& t) {
    submit();
    if (t.peer == rank()) return !together_.args;
    return t.outgoing ? peer_exchange_.replied_by(t.peer) >= t.number
                      : queues_[std::size_t(t.peer)].received >= t.number;
  }
  std::size_t piece_bytes() const { return options_.piece_bytes; }
  std::size_t pieces_at_once() const { return 1; }  ///< all happens on one stream

  /// Starts a collective that is one kernel on each rank, over memory that all ranks address: `kernel(stream, args, in
  /// and out of each rank, rank, size)` puts it on the stream, after the work on the streams of all ranks; work that
  /// they put there afterwards comes after all these kernels.
  using kernel_of_all = detail::cuda::kernel_of_all;
  ticket all_together(const kolo::collective_args& args, kernel_of_all kernel) {
    const auto number = together_.number + 1;
    together_ = {&args, kernel, number, kolo::split_tag ^ number << 32 ^ args.fingerprint, 0, false};
    return {rank(), true, number};
  }

  static constexpr bool assumes_table = true;  ///< not measured
  const kolo::tuning* tuning() const { return &assumed; }

  // Groups.

  direct_transport split(int color, int key) {
    return detail::transport::in_the_name_of("split", [&] {
      return direct_transport{base_transport::split(color, key), options_};
    });
  }
  direct_transport shrink(std::chrono::nanoseconds longest) {
    return direct_transport{base_transport::shrink(longest), options_};
  }

 protected:
  /// The memory of the copy in a forked process may be the rank's.
  bool is_forked_copy() const { return !process_.is_this(); }

 private:
  using base_transport::commit, base_transport::peek, base_transport::release, base_transport::reserve,
      base_transport::slot_bytes;                         // hidden: the executor must not see slots
  using base_transport::heap, base_transport::symmetric;  // memory of the host

  struct message {
    std::byte* data;
    std::size_t bytes;
    std::uint64_t tag;
  };
  struct queues {
    detail::transport::fifo<message> sends{4}, receives{4};  ///< not published, and not received yet
    std::uint64_t received = 0;
  };
  /// The collective that runs as one kernel; `args` null: none.
  struct together {
    const kolo::collective_args* args = nullptr;
    kernel_of_all begin = nullptr;
    std::uint64_t number = 0, tag = 0;
    int published_to = 0;  ///< published to the ranks below this number
    bool has_begun = false;
  };

  direct_transport(base_transport&& w, const direct_options& o)
      : base_transport{std::move(w)},
        options_{o},
        queues_(std::size_t(size())),
        ins_(queues_.size()),
        outs_(queues_.size()),
        peer_exchange_{*this} {}

  void progress(int peer, cudaStream_t stream) {
    auto& q = queues_[std::size_t(peer)];
    if (!together_.args || together_.has_begun)
      peer_exchange_.await_complete(*this, peer, stream);  // this rank's kernel must not wait for another's
    for (; !q.sends.is_empty(); q.sends.pop()) {
      const message& m = q.sends.front();
      if (!peer_exchange_.publish(*this, peer, {m.data, nullptr, m.bytes, stream}, m.tag)) break;
    }
    for (; !q.receives.is_empty(); q.receives.pop(), ++q.received) {
      const message& m = q.receives.front();
      if (!peer_exchange_.is_published(*this, peer, m.bytes, m.tag, mismatch())) break;
      const auto copy_all = [&](const detail::cuda::imported_memory* by) {
        static_cast<void>(enable_peer_access(by[peer]));  // else CUDA stages the copy in the host's memory
        copy(m.data, by[peer].data, m.bytes, stream);
      };
      if (!consume(peer, peer + 1, stream, copy_all)) break;
    }
  }

  /// Publishes this rank's memory to all, and launches the kernel when all have published theirs; true after the last
  /// reply.
  bool go_together(cudaStream_t stream) {
    auto& t = together_;
    const detail::cuda::offer mine{t.args->in.base, t.args->out.base, t.args->count * t.args->compute.element_bytes,
                                   stream};
    for (; t.published_to < size(); ++t.published_to)
      if (t.published_to != rank() && !peer_exchange_.publish(*this, t.published_to, mine, t.tag)) return false;
    for (int peer = 0; peer < size() && !t.has_begun; ++peer)
      if (peer != rank() && !peer_exchange_.is_published(*this, peer, mine.bytes, t.tag, mismatch())) return false;
    if (!t.has_begun)
      t.has_begun =
          consume(0, size(), stream, [&](const detail::cuda::imported_memory* by) { begin_kernel(by, stream); });
    return t.has_begun && !peer_exchange_.is_awaiting();
  }
  bool consume(int first, int last, cudaStream_t stream, auto f) {
    const bool has_consumed = peer_exchange_.consume(*this, first, last, stream, f);
    is_stream_awaited_ = is_stream_awaited_ || !has_consumed;
    return has_consumed;
  }
  auto mismatch() {
    return [this](int from) { detail::transport::report_mismatch(*this, from); };
  }
  cudaError_t enable_peer_access(const detail::cuda::imported_memory& peer) {
    if (peer.device < 0 || peer.device == device()) return cudaSuccess;
    return peer_exchange_.peer_memory().enable_peer_access(peer.device);
  }
  void begin_kernel(const detail::cuda::imported_memory* by, cudaStream_t stream) {
    const auto& args = *together_.args;
    for (int r = 0; r < size(); ++r) {
      const auto i = std::size_t(r);
      if (r != rank()) kolo::cuda::check(enable_peer_access(by[r]), "cudaDeviceEnablePeerAccess");
      ins_[i] = r == rank() ? args.in.base : by[r].data;
      outs_[i] = r == rank() ? args.out.base : by[r].out;
    }
    if (args.count > 0) together_.begin(stream, args, ins_.data(), outs_.data(), rank(), size());
  }

  static constexpr kolo::tuning assumed = [] {
    kolo::tuning t{};
    auto& r = t.rows[0];
    r = {.ranks = 8, .runs_as = pattern::rounds, .round = 10e-6, .message = 4e-6};
    r.bytes.fill(1e-12);
    r.combined.fill(1e-12);
    t.copied.fill(1e-12);
    return t;
  }();

  /// Calls `f`; on a failure, no peer begins to touch memory that was published to it.
  void with_revocation(auto f) {
    detail::core::with_rollback(f, [&] { revoke(); });
  }
  /// Adds the peer: in a collective that is one kernel, the executor does not know for which peer it waits.
  wait_context with_peer(wait_context s) {
    if (together_.args)
      for (int r = size() - 1; r >= 0; --r)
        if (r != rank() && (together_.has_begun ? peer_exchange_.replied_by(r) < peer_exchange_.published_to(r)
                                                : !base_transport::peek(r).data))
          s.peer = r;
    return s;
  }
  void revoke() noexcept {
    try {
      const auto here = make_current();
      if (peer_exchange_.is_awaiting()) peer_exchange_.revoke(*this, work_.use());
      work_.flush();  // as long as the stream is known to exist
    } catch (...) {   // the device has failed as well
    }
  }
  /// Work on this rank's stream may touch the peers' memory, so this waits for the stream before it closes that memory.
  /// After a failure the stream may never end; then the memory stays open until the process ends.
  void leave() noexcept try {
    if constexpr (requires { peer_exchange_.peer_memory().leave(); }) {
      const auto here = make_current();
      for (backoff p; !work_.has_passed(); std::this_thread::yield())
        base_transport::check(p, {.operation = "leave", .peer = rank(), .timeout = timeout()});
      peer_exchange_.peer_memory().leave();
    }
  } catch (...) {
  }

  direct_options options_{};
  detail::core::own_process process_{};
  std::vector<queues> queues_;
  together together_{};
  std::vector<const std::byte*> ins_;  ///< of all ranks
  std::vector<std::byte*> outs_;
  detail::cuda::peer_exchange<PeerMemory> peer_exchange_;
  detail::cuda::work_stream<Batch> work_{};
  bool is_stream_awaited_ = false;  ///< before a peer's memory is available
};

}  // namespace kolo::inline KOLO_ABI::cuda

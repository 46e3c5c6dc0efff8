// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport over NCCL: puts all work on a stream, a round's messages as one group; the host never waits without a
// deadline.
#pragma once

#include <kolo/cuda/nccl/nccl_comm.hpp>
#include <kolo/cuda/work_stream.hpp>
#include <kolo/transport/abilities.hpp>

#include <exception>
#include <vector>

namespace kolo::inline KOLO_ABI::nccl {

/// Models MessageTransport, for device views. A call returns when all its work is on the stream that it names, so work
/// put there later sees the result; with `wait` the host waits for it, with a deadline.
///
/// The host waits for NCCL itself only where that connects ranks: at construction, and in the first calls. Meanwhile it
/// polls NCCL's state and the other ranks' failures: the first cause is kept, sent to all ranks over a communicator
/// split off the host's, and ends NCCL's work by ncclCommAbort. Differences from other transports:
/// * NCCL compares nothing: unless checked, ranks with different calls run into their deadlines, or get wrong data
///   where only types or operators differ.
/// * All ranks must wait for requests on several communicators in the same order: a request's work is put on the stream
///   when it is first tested or waited for, and from then on the device waits for no host. A wait here progresses
///   operations started on communicators of the host.
/// * A rank learns of a failure in its next call or in `wait`; cudaStreamSynchronize knows no deadline.
/// * Over the caller's own `ncclComm_t` no rank is notified, each rank counts as a node, colors of `split` must not be
///   negative, and after a failure the caller has to abort it.
/// * The destructor waits, within the deadline, for this rank's stream, whose work needs the communicator, and for the
///   ranks that NCCL waits for in its finalization. After a failure it waits for nothing.
///
/// In a call the thread's current device must be the transport's, and streams must be of that device; anything else is
/// an error that names both (for streams from CUDA 12.8 on). Requests and plans on a stream that is not the default one
/// may be waited for and run while another device is current, and the communicator destroyed.
///
/// (A template, as the executor is, so that this header needs no kernels until they are used.)
template <class Batch>
class basic_transport : public detail::cuda::nccl_comm {
 public:
  static constexpr memory_space space = memory_space::device;
  static constexpr bool assumes_table = true;  ///< not measured
  using abilities = kolo::abilities<ability::executor, ability::options, ability::flush, ability::token,
                                    ability::pipeline, ability::capture, ability::nodes, ability::checks,
                                    ability::refusal, ability::comparison, ability::device>;
  using options = cuda::call_options;
  /// Empty: NCCL orders its work by the stream, so there is nothing to poll.
  struct ticket {};

  /// State of a plan, or of a request that is restarted. Its first run puts the work on the stream as it is: NCCL
  /// connects ranks, kernels are loaded, memory is allocated. Its second run is captured, and the ranks compare whether
  /// that succeeded, since NCCL demands that all launch the captured work, or none; the host waits for this. Later runs
  /// launch the graph, which has the addresses of the second run and staging of its own. Ends before the transport, or
  /// with its failure. (No call may be made on a stream that the program captures itself.)
  class captured_messages {
   public:
    explicit captured_messages(const basic_transport& t)
        : why_not_{t.options_.graphs ? "" : "the communicator was made with .graphs = false"} {}
    /// In words: a CUDA graph, or why there is none.
    std::string how() const {
      if (!why_not_.empty()) return "call by call: " + why_not_;
      return graph_ ? "a CUDA graph" : "call by call, until it has run twice";
    }

   private:
    friend basic_transport;
    std::string why_not_;
    detail::cuda::kept_graph graph_{};
    bool has_run_ = false;
  };

  /// Collective over the ranks of any host communicator, each with a current device of its own. `host` stays usable,
  /// also after an error.
  template <class Host>
  explicit basic_transport(kolo::communicator<Host>& host, const nccl::options& o = {}) : nccl_comm{host, o} {}
  /// Over the caller's own NCCL communicator, which must outlive this.
  explicit basic_transport(ncclComm_t existing, const nccl::options& o = {})
      : nccl_comm{o, nullptr, detail::cuda::handle{existing, false}} {}

  basic_transport(basic_transport&&) noexcept = default;
  basic_transport& operator=(basic_transport&&) = delete;
  ~basic_transport() {
    leave();
    if (work_.is_moved_from() || !failed()) return;
    work_.abandon();
    static_cast<void>(answer_.release());
  }

  // Waiting.

  /// Waits until all work put on the stream has completed. A failure of any rank that this one learns of, or the
  /// deadline, ends the wait and NCCL's work.
  void wait() { wait(options{}); }
  void wait(const options& o) {
    const detail::core::scoped_value of_call{timeout_, deadline(o)};
    check_failures();
    const cuda::event end = work_.end_on(o.stream);
    wait_for(end);
  }

  // Calls.

  cuda::stream_executor<Batch> executor() const { return work_.executor(); }
  std::string refusal(const kolo::collective_args& args) { return work_.refusal(args); }

  void begin(const options& o) {
    timeout_ = deadline(o);
    check_failures();
    work_.go_on(o.stream);
  }
  void flush() { work_.flush(); }
  std::byte* token() { return work_.token(); }
  auto make_current() const { return work_.make_current(); }

  /// Puts the work of `put()` on the stream, by calling it or by launching the graph captured from it.
  void repeat(captured_messages& r, auto put) {
    const cudaStream_t stream = work_.use();
    if (!r.graph_ && (!std::exchange(r.has_run_, true) || !r.why_not_.empty())) return put();
    if (!r.graph_) capture(r, put);
    if (!r.graph_) return put();
    (*r.graph_)->launch(stream);
  }

  // Messages.

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t /*tag*/) {
    return post({peer, const_cast<std::byte*>(data), bytes, false});
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t /*tag*/) {
    return post({peer, data, bytes, true});
  }

  void submit() {
    if (posted_.empty()) return static_cast<void>(work_.use());
    grouped("ncclGroupEnd", [this](ncclComm_t comm, cudaStream_t stream) {
      ncclResult_t r = ncclSuccess;
      for (const auto& m : posted_)
        if (detail::cuda::is_fine(r))
          r = m.is_incoming ? ncclRecv(m.data, m.bytes, ncclUint8, m.peer, comm, stream)
                            : ncclSend(m.data, m.bytes, ncclUint8, m.peer, comm, stream);
      return r;
    });
    posted_.clear();
  }
  bool done(const ticket&) { return true; }
  std::size_t piece_bytes() const { return options_.piece_bytes; }
  std::size_t pieces_at_once() const { return 1; }

  /// Puts calls of NCCL's, f(comm, stream), on the stream as one group. If one fails, the group is ended all the same,
  /// so no group stays open.
  template <class F>
  void grouped(const char* call, F f) {
    const cudaStream_t stream = work_.use();
    ncclResult_t r = ncclGroupStart();
    if (detail::cuda::is_fine(r)) {
      r = f(comm_.get(), stream);
      const ncclResult_t end = ncclGroupEnd();
      if (detail::cuda::is_fine(r)) r = end;
    }
    wait_ready(call, r);
  }

  const kolo::tuning* tuning() const { return &assumed; }

  // Groups.

  basic_transport split(int color, int key) { return basic_transport{nccl_comm::split(color, key)}; }

 private:
  struct message {
    int peer;
    std::byte* data;
    std::size_t bytes;
    bool is_incoming;
  };

  explicit basic_transport(nccl_comm&& l) : nccl_comm{std::move(l)} {}

  ticket post(const message& m) {
    posted_.push_back(m);
    return {};
  }

  std::chrono::nanoseconds deadline(const options& o) const {
    return o.timeout.count() > 0 ? o.timeout : options_.timeout;
  }
  void check_failures() {
    with_failure_check([&] {
      if (const failure* f = failed()) throw error{*f};
    });
  }

  void wait_for_stream() {
    work_.flush();
    wait_for(work_);
  }
  void wait_for(const auto& end) {
    for (backoff p; !end.has_passed();) poll(p, "the stream");
  }

  /// Leaves the graph in `r`, or the reason why there is none; whether there is one is the same on all ranks.
  void capture(captured_messages& r, auto& put) {
    const cuda::stream aside;
    const cudaStream_t back = work_.divert(aside);
    detail::cuda::kept_graph made;
    try {
      comm_.begin_capture(aside);
      put();
      work_.divert(back);
      made = comm_.end_capture();
    } catch (const error& e) {
      cut(back);
      if (const failure* f = failed()) throw error{*f};
      r.why_not_ = e.what();
    } catch (...) {
      cut(back);
      throw;
    }
    if (all_have(made != nullptr)) r.graph_ = std::move(made);
    else if (made) r.why_not_ = "another rank could not capture it";
  }

  /// Cleans up after a failed capture.
  void cut(cudaStream_t back) noexcept {
    work_.forget();
    work_.divert(back);
    posted_.clear();
    comm_.drop_capture();
  }

  /// Whether `mine` is true on every rank; waits for the stream.
  bool all_have(bool mine) {
    if (!answer_) answer_ = cuda::allocate_pinned(1);
    *answer_ = std::byte{mine};
    std::byte* const on_device = token();
    cuda::copy(on_device, answer_.get(), 1, work_.use());
    grouped("ncclAllReduce", [&](ncclComm_t comm, cudaStream_t s) {
      return ncclAllReduce(on_device, on_device, 1, ncclUint8, ncclMin, comm, s);
    });
    cuda::copy(answer_.get(), on_device, 1, work_.use());
    wait_for_stream();
    return *answer_ != std::byte{0};
  }

  void leave() noexcept {
    if (!comm_.get() || !comm_.is_ours() || failed()) return;
    if (std::uncaught_exceptions() > exceptions_)
      return comm_.abort();  // before memory is freed, which waits for the device
    try {
      const auto here = make_current();
      timeout_ = options_.timeout;
      wait_for_stream();
      wait_ready("ncclCommFinalize", comm_.finalize());
      comm_.destroy();
    } catch (...) {  // with_failure_check or give_up has aborted it
    }
  }

  /// Not measured: the assumed cost of a round, a message and a byte where no table is given.
  static constexpr kolo::tuning assumed = [] {
    kolo::tuning t{};
    t.rows[0] = {.ranks = 8, .runs_as = pattern::rounds, .round = 15e-6, .message = 1e-6};
    t.rows[0].bytes.fill(1e-11);
    t.rows[0].combined.fill(2e-12);
    t.copied.fill(1e-12);
    return t;
  }();

  int exceptions_ = std::uncaught_exceptions();
  detail::cuda::work_stream<Batch> work_{device()};
  std::vector<message> posted_{};
  cuda::pinned_memory answer_{};  ///< see all_have
};

/// NCCL's transport: that of `kolo::nccl::communicator`.
using transport = basic_transport<cuda::device_copy_batch>;

}  // namespace kolo::inline KOLO_ABI::nccl

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's part in an NCCL communicator: makes it, lets the host wait for it with a deadline, and learns of failures.
#pragma once

#include <kolo/cuda/deadline.hpp>
#include <kolo/cuda/nccl/comm_handle.hpp>
#include <kolo/cuda/nccl/failure_channel.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::nccl {

/// Options of a communicator; equal on all ranks.
struct options {
  std::chrono::nanoseconds timeout{std::chrono::minutes{5}};  ///< of every operation without one of its own
  std::size_t piece_bytes = std::size_t{64} << 20;  ///< see MessageTransport; a round costs one launch per piece
  bool checked = false;  ///< see observe/checked.hpp; no effect over an ncclComm_t, where ranks have no host channel
  bool graphs = true;    ///< plans and restarted requests become CUDA graphs; see `captured_messages`
};

}  // namespace kolo::inline KOLO_ABI::nccl

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Any failure that ends NCCL's work, found here or received from another rank, is kept as the first cause, sent to all
/// ranks, and aborts the communicator. The rest is in the transport, and so are the guarantees to users
/// (nccl/transport.hpp).
class nccl_comm {
 public:
  template <class Host>
  nccl_comm(kolo::communicator<Host>& host, const nccl::options& o)
      : options_{checked(o)},
        failures_{std::make_unique<host_failure_channel<Host>>(
            transport::in_the_name_of("nccl::communicator", [&] { return host.split(0, host.rank()); }))},
        rank_{host.rank()},
        size_{host.size()},
        device_{this_device()} {
    ncclUniqueId id{};
    if (rank_ == 0) wait_ready("ncclGetUniqueId", ncclGetUniqueId(&id));
    failures_->broadcast(id.internal, options_.timeout);
    ncclConfig_t config = without_blocking();
    ncclComm_t comm = nullptr;
    const ncclResult_t r = ncclCommInitRankConfig(&comm, size_, id, rank_, &config);
    comm_ = handle{comm, true};
    wait_ready("ncclCommInitRankConfig", r);
  }
  /// `n`: how ranks notify each other of failures; null: not at all.
  nccl_comm(const nccl::options& o, std::unique_ptr<failure_channel> n, handle comm)
      : options_{checked(o)}, failures_{std::move(n)}, comm_{std::move(comm)} {
    const bool is_alone = !failures_;
    if (is_alone) failures_ = std::make_unique<local_failure_channel>(0, 1);
    wait_ready("NCCL's communicator", state());
    wait_ready("ncclCommUserRank", ncclCommUserRank(comm_.get(), &rank_));
    wait_ready("ncclCommCount", ncclCommCount(comm_.get(), &size_));
    wait_ready("ncclCommCuDevice", ncclCommCuDevice(comm_.get(), &device_));
    if (is_alone) failures_ = std::make_unique<local_failure_channel>(rank_, size_);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  placement place() const { return failures_->place(); }
  /// Collective: the node number of each rank.
  std::vector<int> nodes() {
    std::vector<int> all(static_cast<std::size_t>(size_));
    with_failure_check([&] { failures_->find_nodes(all, options_.timeout); });
    return all;
  }
  std::chrono::nanoseconds timeout() const { return options_.timeout; }
  bool is_checked() const { return options_.checked; }
  /// In checked mode, before each call: ranks compare their calls on the host.
  void compare(const char* call, const execute::call_signature& mine, std::chrono::nanoseconds timeout) {
    with_failure_check([&] { failures_->compare(call, mine, timeout); });
  }
  ncclComm_t native_handle() const { return comm_.get(); }  ///< null after a failure
  int device() const { return device_; }

  const failure* failed() const {
    const failure* const f = failures_->failed();
    if (f) comm_.abort();  // nothing waits for its work any more
    return f;
  }
  const failure& fail(const failure& f) {
    const failure& first = failures_->fail(f);
    comm_.abort();
    return first;
  }
  void relax(backoff& p, const wait_context& s) {
    with_failure_check([&] { failures_->relax(p, s); });
  }
  void check(backoff& p, const wait_context& s) {
    with_failure_check([&] { failures_->check(p, s); });
  }

 protected:
  nccl_comm split(int color, int key) {
    auto part = failures_->split(color, key);
    int group = color;
    if (part) {  // any color: the group takes the number of one of its ranks
      group = rank_;
      part->broadcast({reinterpret_cast<char*>(&group), sizeof group}, options_.timeout);
    } else if (color < 0) {
      throw error{errc::invalid_argument,
                  "over an ncclComm_t the color of a split must not be negative, and it is " + std::to_string(color)};
    }
    ncclConfig_t config = without_blocking();
    auto made = std::make_unique<ncclComm_t>(nullptr);  // until NCCL has made the part, in a thread of its own
    timeout_ = options_.timeout;
    try {
      const ncclResult_t r = ncclCommSplit(comm_.get(), group, key, made.get(), &config);
      wait_ready("ncclCommSplit", r == ncclSuccess ? state() : r);  // success may come before its thread has begun
    } catch (...) {
      if (comm_.is_ours()) const handle begun{*made, true};  // the abort above has ended it, with that thread
      else static_cast<void>(made.release());                // NCCL's thread may still write there
      throw;
    }
    return nccl_comm{options_, std::move(part), handle{*made, true}};
  }

  /// NCCL's asynchronous state: the result of the work that it does in its own threads.
  ncclResult_t state() const {
    ncclResult_t now = ncclSuccess;
    const ncclResult_t r = ncclCommGetAsyncError(comm_.get(), &now);
    return r == ncclSuccess ? now : r;
  }

  /// Waits until NCCL has done what `call` asked for, or has put it on the stream.
  void wait_ready(const char* call, ncclResult_t r) {
    for (backoff p; r == ncclInProgress; r = state()) poll(p, call);
    if (r != ncclSuccess) give_up(words_for(call, r, comm_.get()));
  }

  /// After a poll of NCCL that found nothing: checks the deadline and failures, and progresses other operations.
  void poll(backoff& p, const char* at) {
    give_up_when_late(*this, p, {.timeout = timeout_}, at, its_end);
    transport::progress_others(nullptr);
    backoff own;
    check(own, {.timeout = timeout_});
    if (p.count_poll() > 64) std::this_thread::yield();
  }

  /// Calls f(), which learns of other ranks' failures, and checks NCCL's state; either failure ends NCCL's work.
  void with_failure_check(auto f) {
    core::with_rollback(f, [&] { comm_.abort(); });
    if (!comm_.get()) return;
    if (const ncclResult_t r = state(); !is_fine(r)) give_up(words_for("NCCL", r, comm_.get()));
  }

  nccl::options options_{};
  std::unique_ptr<failure_channel> failures_;
  int rank_ = 0, size_ = 1, device_ = 0;
  std::chrono::nanoseconds timeout_ = options_.timeout;  ///< of the current call
  mutable handle comm_{};

 private:
  static nccl::options checked(nccl::options o) { return o.timeout = transport::checked_deadline(o.timeout), o; }
  static int this_device() {
    int count = 0;
    const cudaError_t e = kolo::cuda::forgotten(cudaGetDeviceCount(&count));
    if (e == cudaSuccess && count > 0) return kolo::cuda::current_device();
    throw error{errc::system, std::string{"kolo::nccl needs a GPU and its driver, and this process sees none"} +
                                  (e == cudaSuccess ? "" : std::string{" ("} + cudaGetErrorString(e) + ")")};
  }
  [[noreturn]] void give_up(const std::string& text) {
    throw error{fail(failure_from({}, errc::system, rank_, {}, text))};
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

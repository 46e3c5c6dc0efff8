// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's part in a communicator of NCCL's: how it is made, and how the host waits for it, with a deadline, and hears
// of failures.
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

/// What may be said when a communicator is made; equal on all ranks.
struct options {
  std::chrono::nanoseconds timeout{std::chrono::minutes{5}};  ///< of every operation that names none
  std::size_t piece_bytes = std::size_t{64} << 20;            ///< see MessageTransport; a round costs a launch for each
  bool checked = false;  ///< see observe/checked.hpp; over an ncclComm_t there is no way
  bool graphs = true;    ///< what is run again and again becomes a CUDA graph; see `captured_messages`
};

}  // namespace kolo::inline KOLO_ABI::nccl

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Whatever ends NCCL's work, found here or heard from another rank, is kept as the first cause, told to all, and ends
/// it by ncclCommAbort. The rest is the transport's (nccl/transport.hpp), which says what a user may rely on.
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
  /// `n`: how ranks hear of each other; null: not at all.
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
  /// Collective: of each rank the number of its node.
  std::vector<int> nodes() {
    std::vector<int> all(static_cast<std::size_t>(size_));
    with_failure_check([&] { failures_->find_nodes(all, options_.timeout); });
    return all;
  }
  std::chrono::nanoseconds timeout() const { return options_.timeout; }
  bool is_checked() const { return options_.checked; }
  /// What comes before a call in checked mode: asked on the host.
  void compare(const char* call, const execute::call_signature& mine, std::chrono::nanoseconds timeout) {
    with_failure_check([&] { failures_->compare(call, mine, timeout); });
  }
  ncclComm_t native_handle() const { return comm_.get(); }  ///< null after a failure
  int device() const { return device_; }

  const failure* failed() const {
    const failure* const f = failures_->failed();
    if (f) comm_.abort();  // nothing of it is waited for any more
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
    if (part) {  // any color: the group is called by one of its ranks
      group = rank_;
      part->broadcast({reinterpret_cast<char*>(&group), sizeof group}, options_.timeout);
    } else if (color < 0) {
      throw error{errc::invalid_argument,
                  "over an ncclComm_t the color of a split must not be negative, and it is " + std::to_string(color)};
    }
    ncclConfig_t config = without_blocking();
    auto made = std::make_unique<ncclComm_t>(nullptr);  // until NCCL has made the part, which takes a thread of its own
    timeout_ = options_.timeout;
    try {
      const ncclResult_t r = ncclCommSplit(comm_.get(), group, key, made.get(), &config);
      wait_ready("ncclCommSplit", r == ncclSuccess ? state() : r);  // it says success while its thread begins
    } catch (...) {
      if (comm_.is_ours()) const handle begun{*made, true};  // which was aborted, with that thread
      else static_cast<void>(made.release());                // it may still write there
      throw;
    }
    return nccl_comm{options_, std::move(part), handle{*made, true}};
  }

  /// How NCCL is, of whatever it does by itself.
  ncclResult_t state() const {
    ncclResult_t now = ncclSuccess;
    const ncclResult_t r = ncclCommGetAsyncError(comm_.get(), &now);
    return r == ncclSuccess ? now : r;
  }

  /// Until NCCL has done what it was asked for, or has put it on the stream.
  void wait_ready(const char* call, ncclResult_t r) {
    for (backoff p; r == ncclInProgress; r = state()) poll(p, call);
    if (r != ncclSuccess) give_up(words_for(call, r, comm_.get()));
  }

  /// A fruitless look at something of NCCL's.
  void poll(backoff& p, const char* at) {
    give_up_when_late(*this, p, {.timeout = timeout_}, at, its_end);
    transport::progress_others(nullptr);
    backoff own;
    check(own, {.timeout = timeout_});
    if (++p.polls > 64) std::this_thread::yield();
  }

  /// What ends NCCL's work is heard: from the others by f, and from NCCL.
  template <class F>
  void with_failure_check(F f) {
    try {
      f();
    } catch (...) {
      comm_.abort();
      throw;
    }
    if (!comm_.get()) return;
    if (const ncclResult_t r = state(); !is_fine(r)) give_up(words_for("NCCL", r, comm_.get()));
  }

  nccl::options options_{};
  std::unique_ptr<failure_channel> failures_;
  int rank_ = 0, size_ = 1, device_ = 0;
  std::chrono::nanoseconds timeout_ = options_.timeout;  ///< of the call that runs
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

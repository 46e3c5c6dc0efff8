// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's work on a device: the stream that a call names, the work put there, and the views that are accepted.
#pragma once

#include <kolo/cuda/executor.hpp>
#include <kolo/execute/collective_args.hpp>

#include <memory>
#include <optional>
#include <string>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Common part of the transports for device views. The work of a rank is one sequence: where a call names another
/// stream, that stream waits for the work on the earlier ones. The device is the one that is current at the first call.
template <class Batch>
class work_stream {
 public:
  explicit work_stream(int device = -1) : device_{device} {}

  /// Flushes the batch first: the caller may free memory that copies in it still read.
  kolo::cuda::stream_executor<Batch> executor() const {
    copy_batch_->flush();
    return kolo::cuda::stream_executor<Batch>{*copy_batch_};
  }
  int device() const { return device_; }  ///< -1 before the first call
  current_device_scope make_current() const { return current_device_scope{device_}; }
  bool is_moved_from() const { return !copy_batch_; }

  /// Why these views are refused; empty: they are not. Of a view with many runs only the first and the last are
  /// checked.
  std::string refusal(const kolo::collective_args& args) {
    if (const auto why = refusal_of_device(); !why.empty()) return why;
    for (const kolo::memory* m : {&args.in, &args.out}) {
      if (m->count == 0) continue;
      for (const std::size_t i : {std::size_t{0}, m->count - 1})
        if (const auto why = refusal_of(m->at(i).data); !why.empty()) return why;
    }
    return "";
  }

  /// For the host to wait: a point on `stream`, after all work so far. A call that is under way continues on its own
  /// stream. Throws where another device is current: the events made there would fit no stream of later calls.
  kolo::cuda::event end_on(cudaStream_t stream) {
    if (const auto why = refusal_of_device(); !why.empty()) throw error{errc::invalid_argument, why};
    const core::scoped_value of_call{copy_batch_->stream, copy_batch_->stream};
    go_on(stream);
    flush();
    kolo::cuda::event end;
    end.record(stream);
    return end;
  }

  /// From now on work goes to `stream`. Throws if it is another device's (from CUDA 12.8 on). A stream with the same
  /// handle may be a new one, after the other was destroyed: it waits as well.
  void go_on(cudaStream_t stream) {
    if (stream != copy_batch_->stream) {
      if (const int theirs = kolo::cuda::device_of(stream); device_ >= 0 && theirs >= 0 && theirs != device_)
        throw error{errc::invalid_argument, works_here() + ", and the stream is of device " + std::to_string(theirs)};
      flush();
      copy_batch_->stream = stream;
    }
    if (last_ && !is_used_) last_->make_wait(stream);
    is_used_ = true;
  }
  /// The stream, for more work; flushes the batch first.
  cudaStream_t use() {
    copy_batch_->flush();
    is_used_ = true;
    return copy_batch_->stream;
  }
  /// Sends work to another stream, in no order with the rest; returns the previous one. For a capture.
  cudaStream_t divert(cudaStream_t stream) {
    copy_batch_->flush();
    return std::exchange(copy_batch_->stream, stream);
  }
  /// After a failure: drops the copies that have not reached the stream.
  void forget() { copy_batch_->forget(); }
  /// Puts all work on the stream, and an event after it.
  void flush() {
    if (!is_used_) return;
    is_used_ = false;
    copy_batch_->flush();
    if (!last_) last_.emplace();
    last_->record(copy_batch_->stream);
  }
  /// Whether all work of the last `flush` has completed.
  bool has_passed() const { return !last_ || last_->has_passed(); }

  /// Nothing is freed here: that would wait for what is on the streams, and after a failure some of it may never end.
  void abandon() { static_cast<void>(token_.release()); }

  /// What a barrier sends: a byte on the device.
  std::byte* token() {
    if (!token_) {
      token_ = kolo::cuda::allocate(1);
      kolo::cuda::fill(token_.get(), 0, 1, use());
    }
    return token_.get();
  }

 private:
  std::string refusal_of_device() {
    const int now = kolo::cuda::current_device();
    if (device_ < 0) device_ = now;
    if (now == device_) return "";
    return works_here() + ", and the calling thread's current device is " + std::to_string(now);
  }
  std::string refusal_of(const std::byte* p) const {
    const auto a = kolo::cuda::attributes_of(p);
    if (a.type == cudaMemoryTypeUnregistered) return "a device view points to memory that CUDA does not know";
    if (a.type != cudaMemoryTypeDevice || a.device == device_) return "";
    return works_here() + ", and a view lies on device " + std::to_string(a.device);
  }
  std::string works_here() const { return "the communicator works on device " + std::to_string(device_); }

  std::unique_ptr<Batch> copy_batch_ = std::make_unique<Batch>();  // executors keep its address
  std::optional<kolo::cuda::event> last_{};  ///< after all work so far, when another stream goes on
  kolo::cuda::device_memory token_{};
  int device_ = -1;
  bool is_used_ = false;  ///< something may have been put on the stream since the last event
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

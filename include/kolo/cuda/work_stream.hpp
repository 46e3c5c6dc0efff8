// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's place on a device: the stream that a call names, what has been put there, and the views that can be taken.
#pragma once

#include <kolo/cuda/executor.hpp>
#include <kolo/execute/collective_args.hpp>

#include <memory>
#include <optional>
#include <string>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// What transports for device views have in common. The work of a rank is one sequence: where a call names another
/// stream, that one waits for what was put on the others. The device is the one that is current at the first call.
template <class Batch>
class work_stream {
 public:
  explicit work_stream(int device = -1) : device_{device} {}

  /// Whoever asks may give back memory that copies in the batch still read: none is left there.
  kolo::cuda::stream_executor<Batch> executor() const {
    copy_batch_->flush();
    return kolo::cuda::stream_executor<Batch>{*copy_batch_};
  }
  int device() const { return device_; }  ///< -1 before the first call
  cudaStream_t stream() const { return copy_batch_->stream; }
  bool is_moved_from() const { return !copy_batch_; }

  /// Why these views cannot be taken; empty: they can. Of views with many runs the first and the last are looked at.
  std::string refusal(const kolo::collective_args& args) {
    const int now = kolo::cuda::current_device();
    if (device_ < 0) device_ = now;
    if (now != device_) return works_here() + ", and the calling thread's current device is " + std::to_string(now);
    for (const kolo::memory* m : {&args.in, &args.out}) {
      if (m->count == 0) continue;
      for (const std::size_t i : {std::size_t{0}, m->count - 1})
        if (const auto why = refusal_of(m->at(i).data); !why.empty()) return why;
    }
    return "";
  }

  /// From now on work goes there. Throws where that is another device's (from CUDA 12.8 on, which says it). A stream
  /// that has the same handle may be a new one, after the other was destroyed: it waits as well.
  void go_on(cudaStream_t stream) {
    if (stream != copy_batch_->stream) {
      if (const int theirs = kolo::cuda::device_of(stream); device_ >= 0 && theirs >= 0 && theirs != device_)
        throw error{errc::invalid_argument, works_here() + ", and the stream is of device " + std::to_string(theirs)};
      flush();
      copy_batch_->stream = stream;
    }
    if (last_ && !is_used_) last_->hold_back(stream);
    is_used_ = true;
  }
  /// The stream, for more work; what waited in the batch is there.
  cudaStream_t use() {
    copy_batch_->flush();
    is_used_ = true;
    return copy_batch_->stream;
  }
  /// Work goes elsewhere, in no order with the rest; gives where it went before. For a capture.
  cudaStream_t divert(cudaStream_t stream) {
    copy_batch_->flush();
    return std::exchange(copy_batch_->stream, stream);
  }
  /// What has not reached the stream yet never will, after a failure.
  void forget() { copy_batch_->forget(); }
  /// All that was asked for is on the stream, and a point behind it.
  void flush() {
    if (!is_used_) return;
    is_used_ = false;
    copy_batch_->flush();
    if (!last_) last_.emplace();
    last_->record(copy_batch_->stream);
  }
  /// Has all of it happened that was there at the last `flush`?
  bool has_passed() const { return !last_ || last_->has_passed(); }

  /// Nothing is freed here: that would wait for what is on the streams, and after a failure some of it may never end.
  void abandon() { static_cast<void>(token_.release()); }

  /// What a barrier sends: a byte on the device.
  std::byte* token() {
    if (!token_) token_ = kolo::cuda::allocate(1);
    return token_.get();
  }

 private:
  std::string refusal_of(const std::byte* p) const {
    const auto a = kolo::cuda::attributes_of(p);
    if (a.type == cudaMemoryTypeUnregistered) return "a device view points to memory that CUDA does not know";
    if (a.type != cudaMemoryTypeDevice || a.device == device_) return "";
    return works_here() + ", and a view lies on device " + std::to_string(a.device);
  }
  std::string works_here() const { return "the communicator works on device " + std::to_string(device_); }

  std::unique_ptr<Batch> copy_batch_ = std::make_unique<Batch>();  // executors keep its address
  std::optional<kolo::cuda::event> last_{};  ///< behind all work so far, when another stream goes on
  kolo::cuda::device_memory token_{};
  int device_ = -1;
  bool is_used_ = false;  ///< something may have been put on the stream since the last point
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

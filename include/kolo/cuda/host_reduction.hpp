// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions of device vectors by the host: through pinned memory, piece by piece, over any host communicator.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/cuda/deadline.hpp>
#include <kolo/cuda/runtime.hpp>
#include <kolo/transport/small_exchange.hpp>
#include <kolo/view/device.hpp>

#include <algorithm>
#include <optional>
#include <span>

namespace kolo::inline KOLO_ABI::cuda {

/// `host_reduction by_host{comm}; by_host.allreduce(x, kolo::sum, {.stream = s});`: the same allreduce as a device
/// communicator's, computed by the host: for transports that reach host memory only, for operators that only the host
/// can call, or while the device is busy. Whether it is faster than a reduction on the device depends on the machine:
/// bench/host_staging.cu compares the two. `comm` stays usable, and outlives this.
///
/// After   the sum contains the results of earlier work on the stream, and later work on the stream sees the sum.
/// Cost    each element crosses the bus twice; the host's allreduce of n elements; pinned memory for two pieces. While
///         the host combines one piece the next one is copied. The call returns when the host has combined the last
///         one: it blocks, within the deadline, until the stream has reached it.
/// Order   that of the host's allreduce of one piece: the bits are those of any communicator with that algorithm and
///         vectors as long as a piece.
/// Errors  timeout, also where this rank's own stream does not reach it; else those of the host's allreduce.
template <Communicator C>
class host_reduction {
 public:
  using options = call_options;  ///< the deadline is each piece's

  /// `piece_bytes`: equal on all ranks.
  explicit host_reduction(C& comm, std::size_t piece_bytes = std::size_t{2} << 20)
      : comm_{&comm}, piece_bytes_{piece_bytes} {}
  host_reduction(host_reduction&&) noexcept = default;
  host_reduction& operator=(host_reduction&&) = delete;
  ~host_reduction() {
    if (!comm_->transport().failed()) return;
    for (slot& s : slots_) static_cast<void>(s.memory.release());  // a stream that is stuck may still copy there
  }

  template <Element T, class Op>
  void allreduce(device_span<T> x, const Op& op, const options& o = options{}) {
    allreduce(x, op, automatic{}, o);
  }

  template <Element T, class Op, class A>
  void allreduce(device_span<T> x, const Op& op, const A& algorithm, const options& o = options{}) {
    const std::size_t piece = std::max<std::size_t>(piece_bytes_ / sizeof(T), 1),
                      pieces = (x.size() + piece - 1) / piece;
    const auto of = [&](std::size_t k) { return x.subspan(k * piece, std::min(piece, x.size() - k * piece)); };
    const auto alone = [&](auto f) { detail::transport::sharing_failure(comm_->transport(), "allreduce", f); };
    const auto fetch = [&](std::size_t k) {
      slot& s = slots_[k % 2];
      copy(s.at_least(std::max(piece_bytes_, sizeof(T))), of(k).data(), of(k).size() * sizeof(T), o.stream);
      s.has_come->record(o.stream);
    };
    typename C::options its{};
    its.timeout = o.timeout;
    alone([&] {
      if (last_) last_->make_wait(o.stream);  // another stream may still read there
      if (const int now = current_device(); now != device_) {
        last_.reset();
        for (slot& s : slots_) s.has_come.reset();
        device_ = now;
      }
    });
    if (pieces == 0) kolo::allreduce(*comm_, std::span<T>{}, op, algorithm, its);
    for (std::size_t k = 0; k < pieces; ++k) {
      slot& s = slots_[k % 2];
      alone([&] {
        if (k == 0) fetch(0);
        if (k + 1 < pieces) fetch(k + 1);  // after the copy back of the previous piece: they share a stream
        wait_for(*s.has_come, o);
      });
      kolo::allreduce(*comm_, std::span<T>{reinterpret_cast<T*>(s.memory.get()), of(k).size()}, op, algorithm, its);
      alone([&] { copy(of(k).data(), s.memory.get(), of(k).size() * sizeof(T), o.stream); });
    }
    alone([&] {
      if (!last_) last_.emplace();
      last_->record(o.stream);
    });
  }

 private:
  struct slot {
    pinned_memory memory{};
    std::size_t bytes = 0;
    std::optional<event> has_come{};  ///< of the current call's device, as `last_`

    std::byte* at_least(std::size_t wanted) {
      if (wanted > bytes) {
        memory = allocate_pinned(wanted);
        bytes = wanted;
      }
      if (!has_come) has_come.emplace();
      return memory.get();
    }
  };

  void wait_for(const event& e, const options& o) const {
    auto& transport = comm_->transport();
    const auto timeout = o.timeout.count() > 0 ? o.timeout : transport.timeout();
    detail::cuda::wait_for_stream(transport, {.operation = "allreduce", .timeout = timeout},
                                  detail::cuda::the_operation, [&] { return e.has_passed(); });
  }

  C* comm_;
  std::size_t piece_bytes_;
  slot slots_[2]{};
  std::optional<event> last_{};
  int device_ = -1;  ///< of the events
};

}  // namespace kolo::inline KOLO_ABI::cuda

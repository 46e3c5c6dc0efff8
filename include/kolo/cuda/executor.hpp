// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device's executor: what is done to elements, put on a stream.
#pragma once

#include <kolo/cuda/elements.hpp>
#include <kolo/cuda/runtime.hpp>

#include <algorithm>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Begins a piece of work (see elements.hpp) on a stream. `launch_work` is found when this is instantiated: the one of
/// launch.cuh, or a test's.
void begin_work(cudaStream_t stream, std::size_t items, const auto& work) {
  constexpr bool can_launch = requires { launch_work(stream, items, work); };
  static_assert(can_launch,
                "kolo: device views need kernels: include <kolo/cuda/reduce.cuh> (or mpi.cuh) first, and compile this "
                "file with nvcc");
  if constexpr (can_launch) launch_work(stream, items, work);
}

inline constexpr std::size_t chunks(std::size_t count, std::size_t n) { return (count + n - 1) / n; }

/// The functions of a `kernel`, on a stream.
struct functions {
  void (*combine)(cudaStream_t, const void* op, std::byte* dst, const source*, int n, std::size_t count,
                  int finish_size);
  void (*to_wire)(cudaStream_t, std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count);
  void (*from_wire)(cudaStream_t, std::byte* dst, const std::byte* wire, std::size_t count);
};

/// What is combined, and where to; see elements.hpp.
struct vectors {
  std::byte* const* into;
  int targets;
  const source* from;
  int n;
  std::size_t count;
  int finish_size;
};

template <class T, class Op>
struct functions_of {
  using W = reduce::wire_element_t<Op, T>;
  static constexpr std::size_t N = elements_per_load<T, W>;
  static constexpr std::size_t
      few = 2,
      more = 8,
      many = 1024;  ///< vectors in one pass. The last take 16 or 24 KiB of arguments: for many arrivals at once

  template <std::size_t Most, std::size_t Targets, std::size_t U>
  static void pass(cudaStream_t stream, const Op& op, const vectors& v, bool by_bytes) {
    combining<T, Op, Most, Targets, U> work{op, v.count, v.n, v.targets, v.finish_size, by_bytes, {}, {}};
    std::copy_n(v.from, v.n, work.from);
    if constexpr (Targets == 1) *work.into = *v.into;
    else std::copy_n(v.into, v.targets, work.into);
    begin_work(stream, chunks(v.count, U), work);
  }
  template <std::size_t U>
  static bool fits(const vectors& v) {
    return std::all_of(v.into, v.into + v.targets, is_aligned<T, U>) &&
           std::all_of(v.from, v.from + v.n,
                       [](const source& s) { return s.on_wire ? is_aligned<W, U>(s.data) : is_aligned<T, U>(s.data); });
  }
  template <std::size_t Most, std::size_t Targets>
  static void combine_some(cudaStream_t stream, const Op& op, const vectors& v) {
    if (N > 1 && fits<N>(v)) pass<Most, Targets, N>(stream, op, v, false);
    else pass<Most, Targets, 1>(stream, op, v, !fits<1>(v));
  }
  /// Did copies do it? Nothing is combined then, or converted.
  static bool copied(cudaStream_t stream, const vectors& v) {
    const bool finishes = Finishes<Op, reduce::accumulator_t<T, Op>> && v.finish_size > 0;
    if (v.n != 1 || finishes || (v.from->on_wire && !std::is_same_v<T, W>)) return v.count == 0;
    for (int k = 0; k < v.targets; ++k)
      if (v.into[k] != v.from->data) kolo::cuda::copy(v.into[k], v.from->data, v.count * sizeof(T), stream);
    return true;
  }
  [[noreturn]] static void refuse(int n) {
    throw error{errc::invalid_argument, "a device combines at most " + std::to_string(many) +
                                            " vectors at once, and here are " + std::to_string(n) +
                                            ": use an algorithm with rounds, such as ring or circulant"};
  }

  static void combine(cudaStream_t stream, const void* untyped, std::byte* dst, const source* from, int n,
                      std::size_t count, int finish_size) {
    const Op& op = *static_cast<const Op*>(untyped);
    const vectors v{&dst, 1, from, n, count, finish_size};
    if (copied(stream, v)) return;
    if (std::size_t(n) <= few) combine_some<few, 1>(stream, op, v);
    else if (std::size_t(n) <= many) combine_some<many, 1>(stream, op, v);
    else refuse(n);
  }
  /// To several targets in one pass. (Separate kernels, so that callers with one target do not compile these.)
  static void combine_to_all(cudaStream_t stream, const Op& op, const vectors& v) {
    if (copied(stream, v)) return;
    const int most = std::max(v.n, v.targets);
    if (std::size_t(most) <= more) combine_some<more, more>(stream, op, v);
    else if (std::size_t(most) <= many) combine_some<many, many>(stream, op, v);
    else refuse(most);
  }

  template <std::size_t U>
  static bool fit(std::byte* wire, const std::byte* from, const std::byte* rounded) {
    return is_aligned<W, U>(wire) && is_aligned<T, U>(from) && is_aligned<T, U>(rounded);
  }
  static void to_wire(cudaStream_t stream, std::byte* wire, const std::byte* from, std::byte* rounded,
                      std::size_t count) {
    if (N > 1 && fit<N>(wire, from, rounded))
      begin_work(stream, chunks(count, N), narrowing<T, W, N>{wire, from, rounded, count, false});
    else begin_work(stream, count, narrowing<T, W, 1>{wire, from, rounded, count, !fit<1>(wire, from, rounded)});
  }
  static void from_wire(cudaStream_t stream, std::byte* dst, const std::byte* wire, std::size_t count) {
    if (N > 1 && is_aligned<T, N>(dst) && is_aligned<W, N>(wire))
      begin_work(stream, chunks(count, N), widening<T, W, N>{dst, wire, count, false});
    else
      begin_work(stream, count,
                 widening<T, W, 1>{dst, wire, count, !(is_aligned<T, 1>(dst) && is_aligned<W, 1>(wire))});
  }

  static constexpr functions table{&combine, &to_wire, &from_wire};
};

/// A stream, and short copies that wait to be put there together: a view of many runs takes one launch for each hundred
/// of them, not one for each. (A template, as the executor is, so that this header does without kernels until they are
/// used.)
template <class Copying>
class copy_batch {
 public:
  cudaStream_t stream = nullptr;

  /// The two do not overlap.
  void add(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    if (count_ == Copying::most || depends(to, from, bytes)) flush();
    if (bytes > longest) {
      flush();
      return kolo::cuda::copy(to, from, bytes, stream);
    }
    waiting_.runs[count_++] = {to, from, bytes};
  }

  /// Drops the copies that wait.
  void forget() { count_ = 0; }

  void flush() {
    if (count_ == 0) return;
    const int n = std::exchange(count_, 0);
    if (n == 1) return kolo::cuda::copy(waiting_.runs[0].to, waiting_.runs[0].from, waiting_.runs[0].bytes, stream);
    std::size_t most = 0;
    for (int i = 0; i < n; ++i) most = std::max(most, waiting_.runs[i].bytes);
    waiting_.threads = std::clamp<std::size_t>(most / 64, 32, 4096);
    begin_work(stream, std::size_t(n) * waiting_.threads, waiting_);
  }

 private:
  static constexpr std::size_t longest = 256 * 1024;

  static bool overlap(const std::byte* a, std::size_t na, const std::byte* b, std::size_t nb) {
    return a < b + nb && b < a + na;
  }

  /// Copies that wait happen at once: none may read or write what another one writes.
  bool depends(const std::byte* to, const std::byte* from, std::size_t bytes) const {
    return std::any_of(waiting_.runs, waiting_.runs + count_, [&](const auto& r) {
      return overlap(r.to, r.bytes, from, bytes) || overlap(r.to, r.bytes, to, bytes) ||
             overlap(r.from, r.bytes, to, bytes);
    });
  }

  Copying waiting_{};
  int count_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

namespace kolo::inline KOLO_ABI::cuda {

/// An executor (execute/executor.hpp) over the stream of a batch of copies: everything happens there, in the order of
/// the calls.
template <class Batch>
class stream_executor {
 public:
  using allocation = device_memory;

  stream_executor() = default;
  explicit stream_executor(Batch& t) : copy_batch_{&t} {}

  static allocation allocate(std::size_t bytes) { return cuda::allocate(bytes); }

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const { copy_batch_->add(to, from, bytes); }
  void combine(const kernel& k, std::byte* dst, const source* sources, int n, std::size_t count,
               int finish_size) const {
    of(k).combine(now(), k.op, dst, sources, n, count, finish_size);
  }
  void to_wire(const kernel& k, std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count) const {
    of(k).to_wire(now(), wire, from, rounded, count);
  }
  void from_wire(const kernel& k, std::byte* dst, const std::byte* wire, std::size_t count) const {
    of(k).from_wire(now(), dst, wire, count);
  }
  void round(const kernel& k, std::byte* data, std::size_t count) const {
    of(k).to_wire(now(), nullptr, data, data, count);
  }

  /// Operators and elements as on the host; what they do must be callable on a device, and need not be on the host.
  template <Element T, class Op>
  static kernel make_kernel(const Op& op) {
    static_assert(!std::is_pointer_v<Op>,
                  "kolo: a function pointer points to a host function: pass a lambda or an object whose operator() is "
                  "__device__");
    operator_check<Op, T>();
    if constexpr (operator_accepts<Op, T>) {
      using W = detail::reduce::wire_element_t<Op, T>;
      kernel k{.element_bytes = sizeof(T),
               .wire_bytes = sizeof(W),
               .op = &op,
               .device = &detail::cuda::functions_of<T, Op>::table};
      if constexpr (!std::is_same_v<T, W>) {  // tells the executor that elements travel in another type
        k.to_wire = &detail::reduce::kernel_of<T, Op>::to_wire;
        k.from_wire = &detail::reduce::kernel_of<T, Op>::from_wire;
      }
      k.finishes = Finishes<Op, detail::reduce::accumulator_t<T, Op>>;
      k.finishes_alone = k.finishes && detail::reduce::finishes_alone<Op>;
      return k;
    }
  }

 private:
  static const detail::cuda::functions& of(const kernel& k) {
    return *static_cast<const detail::cuda::functions*>(k.device);
  }
  cudaStream_t now() const {
    copy_batch_->flush();
    return copy_batch_->stream;
  }

  Batch* copy_batch_ = nullptr;
};

/// The copies of a round, gathered to be started together on a stream, up to the most that fit.
using device_copy_batch = detail::cuda::copy_batch<detail::cuda::copying>;
/// The executor of streams: copies, combines and converts elements in a device's memory, in the order of one stream.
using device_executor = stream_executor<device_copy_batch>;

}  // namespace kolo::inline KOLO_ABI::cuda

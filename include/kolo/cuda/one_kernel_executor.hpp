// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For plans as one kernel: a device executor that records its operations, and the functions that run the record for an
// element type and operator.
#pragma once

#include <kolo/cuda/captured_program.hpp>
#include <kolo/cuda/executor.hpp>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Functions that start a program. `launch_together` and `most_blocks_together` are looked up when this is
/// instantiated: those of launch_together.cuh, or a test's.
struct program_functions {
  functions one_by_one;  ///< first: where executors look for them
  /// Blocks that can run at once on the current device. Loads the kernel, so that another kernel that waits for this
  /// one does not wait for the loading.
  int (*most_blocks)();
  void (*launch)(cudaStream_t, const program&, const void* op);
};

template <class T, class Op>
struct program_functions_of {
  using work = program_of<T, Op>;

  static int most_blocks() {
    constexpr bool can_launch = requires { most_blocks_together(static_cast<const work*>(nullptr)); };
    static_assert(can_launch,
                  "kolo: plans need a kernel: include <kolo/cuda/one_kernel.cuh>, and compile this file with nvcc");
    if constexpr (can_launch) return most_blocks_together(static_cast<const work*>(nullptr));
    else return 0;
  }
  static void launch(cudaStream_t stream, const program& p, const void* op) {
    constexpr bool can_launch = requires(const work& w) { launch_together(stream, p.ranks * p.blocks, w); };
    if constexpr (can_launch) launch_together(stream, p.ranks * p.blocks, work{p, *static_cast<const Op*>(op)});
  }
  static constexpr functions one_by_one() {
    if constexpr (std::is_same_v<Op, only_moves>) return {};
    else return functions_of<T, Op>::table;
  }
  static constexpr program_functions table{one_by_one(), &most_blocks, &launch};
};

/// The executor of a stream; while a program is captured, it records into that instead.
template <class Batch>
class capturing_executor : public kolo::cuda::stream_executor<Batch> {
  using doing = kolo::cuda::stream_executor<Batch>;

 public:
  capturing_executor() = default;
  capturing_executor(const doing& d, captured_program* n) : doing{d}, captured_{n} {}

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
    captured_ ? captured_->copy(to, from, bytes) : doing::copy(to, from, bytes);
  }
  void combine(const kernel& k, std::byte* dst, const source* sources, int n, std::size_t count,
               int finish_size) const {
    captured_ ? captured_->combine(k, dst, sources, n, count, finish_size)
              : doing::combine(k, dst, sources, n, count, finish_size);
  }
  void to_wire(const kernel& k, std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count) const {
    captured_ ? captured_->narrow(k, wire, from, rounded, count) : doing::to_wire(k, wire, from, rounded, count);
  }
  void from_wire(const kernel& k, std::byte* dst, const std::byte* wire, std::size_t count) const {
    captured_ ? captured_->widen(k, dst, wire, count) : doing::from_wire(k, dst, wire, count);
  }
  void round(const kernel& k, std::byte* data, std::size_t count) const {
    captured_ ? captured_->narrow(k, nullptr, data, data, count) : doing::round(k, data, count);
  }

  template <Element T, class Op>
  static kernel make_kernel(const Op& op) {
    kernel k = doing::template make_kernel<T>(op);
    if constexpr (operator_accepts<Op, T>) k.device = &program_functions_of<T, Op>::table;
    return k;
  }

 private:
  captured_program* captured_ = nullptr;
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

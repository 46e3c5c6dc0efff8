// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What one kernel does that runs the whole schedule of several ranks: the phases of each, what they wait for, and a
// thread's part of them.
#pragma once

#include <kolo/cuda/elements.hpp>

#include <cstddef>
#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Work on elements, as a `kernel` has it: all that an executor is asked for.
struct action {
  enum class kind : std::uint32_t { copy, combine, narrow, widen };
  kind what;
  int sources, finish_size;  ///< of `combine`
  std::uint32_t first_source;
  std::uint32_t addresses;  ///< the low bits of all, or-ed: what they are aligned to
  std::size_t element_bytes;
  std::byte* to;          ///< of `narrow`: the wire elements, or null
  const std::byte* from;  ///< not of `combine`
  std::byte* rounded;     ///< of `narrow`, or null
  std::size_t count;      ///< elements; of `copy`, bytes
};

/// Reached when `rank` has done its first `phases` phases.
struct milestone {
  int rank;
  std::uint32_t phases;
};

/// Actions that may be done in any order, or at once. It begins when its rank has done the phase before, and all
/// milestones are reached.
struct phase {
  std::uint32_t first_action, actions, first_milestone, milestones;
};

/// A rank whose phases this kernel runs.
struct rank_part {
  int rank;
  std::uint32_t first_phase, phases;
};

/// The whole program; its lists lie on the device. Each rank here has `blocks` blocks of threads. A block that has done
/// its part of a phase adds one to its rank's flag, so k phases are done when the flag is k times `blocks`. A rank has
/// two flags, used in turns, in memory of its own device: other devices only read them, as over a bus an addition need
/// not be atomic. The flag of this run is zero when the kernel begins, which zeroes that of the next run.
struct program {
  const rank_part* parts;
  const phase* phases;
  const milestone* milestones;
  const action* actions;
  const source* sources;
  std::uint64_t* const* flags;  ///< of each rank, by number
  const std::uint32_t* stop;    ///< not zero: blocks stop waiting; null where all ranks are here
  int ranks, blocks;            ///< here; of each
  int turn;                     ///< 0 or 1: which flags this run uses

  static constexpr std::size_t flag_stride = 16;  ///< flags, so that each has a cache line of its own
};

/// The operator of a program that combines nothing.
struct only_moves {};

template <class T, class Op>
struct program_of {
  program p;
  Op op;

  /// `Flags::value(flag)`: a thread that sees a value also sees what was written before it was raised.
  template <class Flags>
  KOLO_HOST_DEVICE bool may_begin(const rank_part& r, std::uint32_t index) const {
    const phase& now = p.phases[r.first_phase + index];
    bool all = has_done<Flags>(r.rank, index);
    for (std::uint32_t i = 0; i < now.milestones && all; ++i) {
      const milestone& m = p.milestones[now.first_milestone + i];
      all = has_done<Flags>(m.rank, m.phases);
    }
    return all;
  }

  /// Runs a block's part of a phase. `block.each(f)` calls f(thread, threads) for each of its threads, among those of
  /// all blocks of the rank, and ends with the last of them; `block.raise(flag)` adds one after all that the block has
  /// written.
  template <class Block>
  KOLO_HOST_DEVICE void run(const Block& block, const rank_part& r, std::uint32_t index) const {
    const phase& now = p.phases[r.first_phase + index];
    block.each([&](std::size_t thread, std::size_t threads) {
      for (std::uint32_t i = 0; i < now.actions; ++i) act(p.actions[now.first_action + i], thread, threads);
    });
    block.raise(flag_of(r.rank, p.turn));
  }
  /// Once for each rank.
  KOLO_HOST_DEVICE void prepare_next(const rank_part& r) const { *flag_of(r.rank, 1 - p.turn) = 0; }

 private:
  KOLO_HOST_DEVICE std::uint64_t* flag_of(int rank, int turn) const {
    return p.flags[rank] + std::size_t(turn) * program::flag_stride;
  }
  template <class Flags>
  KOLO_HOST_DEVICE bool has_done(int rank, std::uint32_t phases) const {
    return Flags::value(flag_of(rank, p.turn)) >= std::uint64_t{phases} * unsigned(p.blocks);
  }

  KOLO_HOST_DEVICE void act(const action& a, std::size_t thread, std::size_t threads) const {
    if (a.what == action::kind::copy) return copying::copy_run({a.to, a.from, a.count}, thread, threads);
    if constexpr (!std::is_same_v<Op, only_moves>) {
      using W = reduce::wire_element_t<Op, T>;
      constexpr std::size_t N = elements_per_load<T, W>;
      if (N > 1 && a.addresses % 16 == 0) act_on<N>(a, false, thread, threads);
      else act_on<1>(a, a.addresses % alignof(T) != 0 || a.addresses % alignof(W) != 0, thread, threads);
    }
  }
  template <std::size_t N>
  KOLO_HOST_DEVICE void act_on(const action& a, bool by_bytes, std::size_t thread, std::size_t threads) const {
    using W = reduce::wire_element_t<Op, T>;
    if (a.what == action::kind::combine) {
      const combining<T, Op, 0, 1, N> work{
          op, a.count, a.sources, 1, a.finish_size, by_bytes, p.sources + a.first_source, {a.to}};
      grid_stride<N>(work, thread, threads);
    } else if constexpr (!std::is_same_v<T, W>) {
      if (a.what == action::kind::narrow)
        grid_stride<N>(narrowing<T, W, N>{a.to, a.from, a.rounded, a.count, by_bytes}, thread, threads);
      else grid_stride<N>(widening<T, W, N>{a.to, a.from, a.count, by_bytes}, thread, threads);
    }
  }
  template <std::size_t N, class Work>
  KOLO_HOST_DEVICE static void grid_stride(const Work& work, std::size_t thread, std::size_t threads) {
    for (std::size_t i = thread; i < (work.count + N - 1) / N; i += threads) work(i);
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The proof of a schedule, at compile time or at run time, for one number of ranks or for many. Opt-in.
#pragma once

#include <kolo/schedule/erased_schedule.hpp>
#include <kolo/schedule/family.hpp>
#include <kolo/schedule/prover.hpp>
#include <kolo/schedule/representative.hpp>
#include <kolo/schedule/verdict.hpp>

#include <type_traits>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {

inline constexpr int most_by_every_rank = 400;  ///< above this, one rank is executed for all, if possible

/// The rule that the schedule's shape breaks, as a sentence; nullptr: none.
constexpr const char* misfit_of(const erased_schedule& s) {
  if (s.blocks < 1) return "blocks is 1 at least";
  if (s.collective == kind::alltoall && s.blocks != s.size) return "blocks is the number of ranks";
  if (has_parts(s.collective) && s.blocks % s.size != 0) return "blocks is a multiple of the number of ranks";
  if (s.rounds < 0) return "rounds is 0 at least";
  if (s.scratch < 0) return "scratch is 0 at least";
  if (s.root < 0 || s.root >= s.size) return "root is a rank";
  if (s.relative && ((s.blocks != 1 && s.blocks != s.size) || s.scratch > 0))
    return "a relative schedule has no scratch, and one block, or one for each rank";
  return nullptr;
}
}  // namespace detail::schedule

/// Executes the schedule symbolically and checks every law above `Schedule`. A single rank has nothing to prove. The
/// time is proportional to the blocks that move; a few hundred ranks take milliseconds. Above 400 ranks, one rank is
/// executed for all if the schedule is `relative` and its kind allows it (allreduce, reduce_scatter, allgather,
/// barrier): a million ranks take a second or a few. The verdict's `way` says which it was.
template <Schedule S>
constexpr verdict verify(const S& schedule, int size) {
  if (size == 1) return {.collective = S::collective, .size = size};
  if (size < 1 || !supports(schedule, size))
    return {.what = fault::unsupported, .collective = S::collective, .size = size};
  const detail::schedule::erased<S> subject{schedule, size};
  if (const char* const misfit = detail::schedule::misfit_of(subject))
    return {.what = fault::bad_shape, .collective = S::collective, .size = size, .misfit = misfit};
  if (!std::is_constant_evaluated() && size > detail::schedule::most_by_every_rank)
    if (const auto found = detail::schedule::representative{subject}.run()) return *found;
  return detail::schedule::prover{subject}.run();
}
constexpr verdict verify(const detail::schedule::ManySchedules auto& a, int size) {
  return detail::schedule::with_one<verdict>(a, [&](const auto& s) { return verify(s, size); });
}

/// Where a law is broken, as types, so that a compiler's message shows it.
namespace where {
/// The number of ranks.
template <int>
struct size;
/// The rank.
template <int>
struct rank;
/// The round; -1: at the end.
template <int>
struct round;
/// The block.
template <int>
struct block;
}  // namespace where

/// Does not compile; its arguments show which law is broken and where. `is_allreduce` and its siblings instantiate it.
template <fault What, class Size, class Rank, class Round, class Block>
struct schedule_is_wrong {
  static_assert(
      What == fault::none,
      "kolo: this schedule breaks a law of kolo::Schedule. The arguments of schedule_is_wrong say which one, for how "
      "many ranks, and at which rank, round and block (-1: at the end). Compare with the table of kolo::Schedule.");
};

namespace detail::schedule {
/// Each size is a constant evaluation of its own, so the compiler's limits apply to each size separately.
template <Schedule S, int Size>
inline constexpr verdict verdict_for = supports(S{}, Size) ? verify(S{}, Size) : verdict{};

template <Schedule S, int Size, int Last>
constexpr verdict first_fault() {
  if constexpr (Size == Last || !verdict_for<S, Size>) return verdict_for<S, Size>;
  else return first_fault<S, Size + 1, Last>();
}

template <Schedule S>
constexpr bool supports_some(int first, int last) {
  for (int size = first; size <= last; ++size)
    if (supports(S{}, size)) return true;
  return false;
}

template <Schedule S, kind K, int First, int Last>
constexpr bool is_proven() {
  static_assert(S::collective == K, "kolo: this schedule is for another collective; see its member `collective`");
  static_assert(2 <= First && First <= Last, "kolo: give the smallest and the largest number of ranks, 2 or more");
  static_assert(supports_some<S>(First, Last), "kolo: this schedule supports none of these numbers of ranks");
  constexpr verdict v = first_fault<S, First, Last>();
  using wrong =
      schedule_is_wrong<v.what, where::size<v.size>, where::rank<v.rank>, where::round<v.round>, where::block<v.block>>;
  [[maybe_unused]] constexpr wrong stops_here_if_it_is{};
  return true;
}
}  // namespace detail::schedule

/// `is_allreduce<S, 2, 16>`: S is proven for every size from 2 to 16 that it supports. Never false: a wrong schedule
/// does not compile.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_allreduce = detail::schedule::is_proven<S, kind::allreduce, First, Last>();
/// As `is_allreduce`, for a reduce_scatter.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_reduce_scatter = detail::schedule::is_proven<S, kind::reduce_scatter, First, Last>();
/// As `is_allreduce`, for an allgather.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_allgather = detail::schedule::is_proven<S, kind::allgather, First, Last>();
/// As `is_allreduce`, for a broadcast.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_broadcast = detail::schedule::is_proven<S, kind::broadcast, First, Last>();
/// As `is_allreduce`, for a reduce.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_reduce = detail::schedule::is_proven<S, kind::reduce, First, Last>();
/// As `is_allreduce`, for a gather.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_gather = detail::schedule::is_proven<S, kind::gather, First, Last>();
/// As `is_allreduce`, for a scatter.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_scatter = detail::schedule::is_proven<S, kind::scatter, First, Last>();
/// As `is_allreduce`, for an alltoall.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_alltoall = detail::schedule::is_proven<S, kind::alltoall, First, Last>();
/// As `is_allreduce`, for a scan.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_scan = detail::schedule::is_proven<S, kind::scan, First, Last>();
/// As `is_allreduce`, for an exclusive scan.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_exclusive_scan = detail::schedule::is_proven<S, kind::exclusive_scan, First, Last>();
/// As `is_allreduce`, for a barrier.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_barrier = detail::schedule::is_proven<S, kind::barrier, First, Last>();
/// As `is_allreduce`, for a permutation.
template <class S, int First = 2, int Last = 16>
inline constexpr bool is_permutation_schedule = detail::schedule::is_proven<S, kind::permutation, First, Last>();

}  // namespace kolo::inline KOLO_ABI

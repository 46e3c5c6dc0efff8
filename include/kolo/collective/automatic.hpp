// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rule by which the library chooses an algorithm when the caller names none.
#pragma once

#include <kolo/execute/problem.hpp>
#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/recursive_doubling.hpp>

namespace kolo::inline v0 {

/// The algorithm that a call uses when it names none. The choice depends on the collective, the bytes n of the vector (of one part,
/// where there are parts), the number of ranks p, and whether the operator commutes: it is the same on every rank and in every run.
///
/// | collective           | algorithm |
/// |----------------------|-----------|
/// | allreduce            | one_shot while (p-1) n <= 32 KiB and p <= 16; else recursive_doubling while n <= 4 KiB; else two_shot |
/// | reduce               | one_shot while p = 2; else binomial while n <= 16 KiB, and always where the operator does not commute; else two_shot |
/// | broadcast            | one_shot while p = 2, or n <= 16 KiB and p <= 4; else binomial while n <= 16 KiB; else a chain of 16 segments |
/// | scan, exclusive_scan | a chain, of one segment while n <= 16 KiB, of 16 beyond |
/// | barrier              | one_shot while p <= 16, else dissemination |
/// | the others           | one_shot |
struct automatic {};

namespace detail {

template <class S>
inline constexpr S stateless{};
inline constexpr chain::scan short_scan{chain{.segments = 1}};
inline constexpr chain::exclusive_scan short_exclusive_scan{chain{.segments = 1}};

template <class S>
schedule_ref erased(int size) {
  return erase_schedule(stateless<S>, size);
}

template <kind K>
schedule_ref choose(int size, std::size_t bytes) {
  const bool small = bytes <= 16 * 1024;
  if constexpr (K == kind::allreduce) {
    if (static_cast<std::size_t>(size - 1) * bytes <= 32 * 1024 && size <= 16) return erased<one_shot::allreduce>(size);
    return bytes <= 4 * 1024 ? erased<recursive_doubling::allreduce>(size) : erased<two_shot::allreduce>(size);
  } else if constexpr (K == kind::reduce) {
    if (size == 2) return erased<one_shot::reduce>(size);
    return small ? erased<binomial::reduce>(size) : erased<two_shot::reduce>(size);
  } else if constexpr (K == kind::broadcast) {
    if (!small && size > 2) return erased<chain::broadcast>(size);
    return size <= 4 ? erased<one_shot::broadcast>(size) : erased<binomial::broadcast>(size);
  } else if constexpr (K == kind::reduce_scatter) {
    return erased<one_shot::reduce_scatter>(size);
  } else if constexpr (K == kind::allgather) {
    return erased<one_shot::allgather>(size);
  } else if constexpr (K == kind::gather) {
    return erased<one_shot::gather>(size);
  } else if constexpr (K == kind::scatter) {
    return erased<one_shot::scatter>(size);
  } else if constexpr (K == kind::alltoall) {
    return erased<one_shot::alltoall>(size);
  } else if constexpr (K == kind::scan) {
    return small ? erase_schedule(short_scan, size) : erased<chain::scan>(size);
  } else if constexpr (K == kind::exclusive_scan) {
    return small ? erase_schedule(short_exclusive_scan, size) : erased<chain::exclusive_scan>(size);
  } else {
    return size <= 16 ? erased<one_shot::barrier>(size) : erased<dissemination::barrier>(size);
  }
}

}  // namespace detail
}  // namespace kolo::inline v0

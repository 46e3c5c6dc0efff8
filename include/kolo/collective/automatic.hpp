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

/// The algorithm that a call uses when it names none. The choice depends on the collective, the bytes of the vector (of one part,
/// where there are parts) and the number of ranks, and on nothing else: it is the same on every rank and in every run.
///
/// | collective            | up to 16 KiB                                            | above      |
/// |-----------------------|---------------------------------------------------------|------------|
/// | allreduce             | one_shot up to 4 ranks, recursive_doubling beyond       | two_shot   |
/// | reduce                | binomial                                                | two_shot (binomial where the operator does not commute) |
/// | broadcast             | one_shot up to 4 ranks, binomial beyond                 | chain of 16 segments |
/// | scan, exclusive_scan  | chain of one segment                                    | chain of 16 segments |
/// | the others            | one_shot                                                | one_shot   |
/// | barrier               | dissemination                                           |            |
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
schedule_ref choose(int size, std::size_t bytes, [[maybe_unused]] bool commutes) {
  const bool small = bytes <= 16 * 1024;
  if constexpr (K == kind::allreduce) {
    if (!small) return erased<two_shot::allreduce>(size);
    return size <= 4 ? erased<one_shot::allreduce>(size) : erased<recursive_doubling::allreduce>(size);
  } else if constexpr (K == kind::reduce) {
    return small ? erased<binomial::reduce>(size) : erased<two_shot::reduce>(size);
  } else if constexpr (K == kind::broadcast) {
    if (!small) return erased<chain::broadcast>(size);
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
    return erased<dissemination::barrier>(size);
  }
}

}  // namespace detail
}  // namespace kolo::inline v0

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithms among which the library chooses when the caller names none.
#pragma once

#include <kolo/execute/workload.hpp>
#include <kolo/execute/pattern.hpp>
#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/van_de_geijn.hpp>

#include <span>

namespace kolo::inline v0::detail {

/// A schedule that may be chosen, without its type.
struct candidate {
  const char* name = "";
  schedule_ref (*schedule)(int size) = nullptr;
  bool (*supports)(int size) = nullptr;
  bool is_ordered = false;   ///< combines in the order of the ranks
  bool is_relative = false;  ///< one rank's load is every rank's
  bool takes_ragged = true;  ///< parts may differ in length from rank to rank
  int tree = 0;              ///< candidates with equal numbers but 0 give the same bits
};

template <class S>
inline constexpr S stateless{};

/// `Value`: the schedule, which lives for ever.
template <const auto& Value>
constexpr candidate candidate_of(const char* name, int tree = 0, bool takes_ragged = true) {
  using S = std::remove_cvref_t<decltype(Value)>;
  return {name, [](int size) { return erase_schedule(Value, size); }, [](int size) { return supports(Value, size); },
          is_ordered<S>(), is_relative<S>(), takes_ragged, tree};
}

inline constexpr int from_left = 1;  ///< the tree that adds rank after rank

template <int Segments>
struct chain_of {
  static constexpr chain::broadcast broadcast{chain{Segments}};
  static constexpr chain::scan scan{chain{Segments}};
  static constexpr chain::exclusive_scan exclusive_scan{chain{Segments}};
};

template <kind K>
inline constexpr auto candidates_for = 0;

template <>
inline constexpr candidate candidates_for<kind::allreduce>[] = {
    candidate_of<stateless<one_shot::allreduce>>("one_shot", from_left),
    candidate_of<stateless<two_shot::allreduce>>("two_shot", from_left),
    candidate_of<stateless<recursive_doubling::allreduce>>("recursive_doubling"),
    candidate_of<stateless<circulant::allreduce>>("circulant"),
    candidate_of<stateless<ring::allreduce>>("ring"),
};
template <>
inline constexpr candidate candidates_for<kind::reduce_scatter>[] = {
    candidate_of<stateless<one_shot::reduce_scatter>>("one_shot", from_left),
    candidate_of<stateless<circulant::reduce_scatter>>("circulant"),
    candidate_of<stateless<ring::reduce_scatter>>("ring"),
};
template <>
inline constexpr candidate candidates_for<kind::reduce>[] = {
    candidate_of<stateless<one_shot::reduce>>("one_shot", from_left),
    candidate_of<stateless<two_shot::reduce>>("two_shot", from_left),
    candidate_of<stateless<binomial::reduce>>("binomial"),
    candidate_of<stateless<circulant::reduce>>("circulant"),
};
template <>
inline constexpr candidate candidates_for<kind::scan>[] = {
    candidate_of<chain_of<1>::scan>("chain of 1", from_left),
    candidate_of<chain_of<4>::scan>("chain of 4", from_left),
    candidate_of<chain_of<16>::scan>("chain of 16", from_left),
};
template <>
inline constexpr candidate candidates_for<kind::exclusive_scan>[] = {
    candidate_of<chain_of<1>::exclusive_scan>("chain of 1", from_left),
    candidate_of<chain_of<4>::exclusive_scan>("chain of 4", from_left),
    candidate_of<chain_of<16>::exclusive_scan>("chain of 16", from_left),
};
template <>
inline constexpr candidate candidates_for<kind::broadcast>[] = {
    candidate_of<stateless<one_shot::broadcast>>("one_shot"),
    candidate_of<stateless<binomial::broadcast>>("binomial"),
    candidate_of<stateless<two_shot::broadcast>>("two_shot"),
    candidate_of<stateless<van_de_geijn::broadcast>>("van_de_geijn"),
    candidate_of<chain_of<4>::broadcast>("chain of 4"),
    candidate_of<chain_of<16>::broadcast>("chain of 16"),
};
template <>
inline constexpr candidate candidates_for<kind::allgather>[] = {
    candidate_of<stateless<one_shot::allgather>>("one_shot"),
    candidate_of<stateless<circulant::allgather>>("circulant"),
    candidate_of<stateless<ring::allgather>>("ring"),
};
template <>
inline constexpr candidate candidates_for<kind::gather>[] = {
    candidate_of<stateless<one_shot::gather>>("one_shot"),
    candidate_of<stateless<binomial::gather>>("binomial"),
};
template <>
inline constexpr candidate candidates_for<kind::scatter>[] = {
    candidate_of<stateless<one_shot::scatter>>("one_shot"),
    candidate_of<stateless<binomial::scatter>>("binomial"),
};
template <>
inline constexpr candidate candidates_for<kind::alltoall>[] = {
    candidate_of<stateless<one_shot::alltoall>>("one_shot"),
};
template <>
inline constexpr candidate candidates_for<kind::barrier>[] = {
    candidate_of<stateless<one_shot::barrier>>("one_shot"),
    candidate_of<stateless<dissemination::barrier>>("dissemination"),
};

}  // namespace kolo::inline v0::detail

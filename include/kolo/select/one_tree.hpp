// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The candidates of a call in which the bits of an element must depend only on its operands.
#pragma once

#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/rabenseifner.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/select/selection_query.hpp>

#include <array>
#include <span>

namespace kolo::inline KOLO_ABI::detail::select {

/// The candidates of a table give the same bits (`same_bits` with `partial_results::wider`), each for all of its
/// blocks. The tables are the same for all transports; a tuning table decides only within one.
///
/// * `from_left`, for an allreduce of few ranks: combines rank by rank in one pass and rounds once
/// * `neighbours_first`, for an allreduce of many, or by a tree: adjacent ranks, then adjacent pairs, ...
/// * `converted`, for an allreduce with a wire type: the same order; it has one block, so that either every operand is
///   rounded or none
/// * `binomial_tree`, for a reduce: the same order
/// * the others, for the collective of that name: one candidate each
///
/// `Used`: a table is instantiated where it is used.
template <class Used>
struct of_one_tree {
  static constexpr int as_neighbours = 2;  ///< a tree number other than `select::from_left`
  static constexpr std::array from_left{
      candidate_of<stateless<one_shot::allreduce, Used>>("one_shot", select::from_left),
      candidate_of<stateless<two_shot::allreduce, Used>>("two_shot", select::from_left),
  };
  static constexpr std::array neighbours_first{
      candidate_of<stateless<recursive_doubling::allreduce, Used>>("recursive_doubling", as_neighbours),
      candidate_of<stateless<rabenseifner::allreduce, Used>>("rabenseifner", as_neighbours),
  };
  static constexpr std::array converted{
      candidate_of<stateless<recursive_doubling::allreduce, Used>>("recursive_doubling", as_neighbours)};
  static constexpr std::array binomial_tree{candidate_of<stateless<binomial::reduce, Used>>("binomial", as_neighbours)};
  static constexpr std::array reduce_scatter{
      candidate_of<stateless<one_shot::reduce_scatter, Used>>("one_shot", select::from_left)};
  static constexpr std::array scan{candidate_of<stateless<recursive_doubling::scan, Used>>("recursive_doubling")};
  static constexpr std::array exclusive_scan{
      candidate_of<stateless<recursive_doubling::exclusive_scan, Used>>("recursive_doubling")};
};

inline constexpr int most_from_left = 16;  ///< ranks; among more, p - 1 messages in a round cost too much

template <class T>
std::span<const candidate> candidates_of_one_tree(const selection_query& q) {
  using all = of_one_tree<void>;
  switch (q.collective) {
    case kind::reduce: return all::binomial_tree;
    case kind::reduce_scatter: return all::reduce_scatter;
    case kind::scan: return all::scan;
    case kind::exclusive_scan: return all::exclusive_scan;
    default: break;
  }
  if (q.converts) return all::converted;
  if (q.allowed == order::by_tree || q.size > most_from_left) return all::neighbours_first;
  return all::from_left;
}

}  // namespace kolo::inline KOLO_ABI::detail::select

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sparse gradients, as of embeddings: only rows that are not zero are exchanged.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/train/parameter.hpp>
#include <kolo/train/predivide.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// Row rows[i] of a tensor of `height` x `width` elements is values[i * width ...]. Rows that are not listed are zero;
/// a row that is listed more than once is the sum of its entries.
template <Element T>
struct sparse_rows {
  std::size_t height = 0, width = 1;
  std::vector<std::uint64_t> rows{};
  std::vector<T> values{};
};

namespace detail::train {

/// Returns the final value of a sum x over `ranks` ranks.
template <class Op, class A>
A finished(const Op& op, const A& x, int ranks) {
  if constexpr (Finishes<Op, A>) return ranks > 1 ? static_cast<A>(op.finish(x, ranks)) : x;
  else return x;
}

/// Returns the same with every row once, ascending, and finish(sum) for each sum. Equal rows are added in their order.
template <Element T, class F>
sparse_rows<T> merged(const sparse_rows<T>& from, F finish) {
  using A = reduce::accumulator_t<T, sum_t>;
  std::vector<std::size_t> order(from.rows.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return from.rows[a] < from.rows[b]; });
  sparse_rows<T> to{.height = from.height, .width = from.width};
  to.rows.reserve(from.rows.size()), to.values.reserve(from.values.size());
  std::vector<A> sum(from.width);
  for (std::size_t i = 0; i < order.size();) {
    const std::uint64_t row = from.rows[order[i]];
    std::fill(sum.begin(), sum.end(), A{});
    for (; i < order.size() && from.rows[order[i]] == row; ++i)
      for (std::size_t k = 0; k < from.width; ++k)
        sum[k] = static_cast<A>(sum[k] + from.values[order[i] * from.width + k]);
    to.rows.push_back(row);
    for (const A& x : sum) to.values.push_back(static_cast<T>(finish(x)));
  }
  return to;
}

template <class C, Element T>
void check_sparse(C& comm, const sparse_rows<T>& g) {
  const bool are_rows = std::all_of(g.rows.begin(), g.rows.end(), [&](auto row) { return row < g.height; });
  if (!are_rows || g.values.size() != g.rows.size() * g.width)
    execute::refuse(*comm.engine(), "sparse_allreduce",
                    "a sparse gradient has width values for each row that it names, and names rows below its height");
}

/// Collective: returns how many rows each rank has. Errors: `mismatch` if ranks differ in height or width, since they
/// would cut the values in other places.
template <class C, Element T>
std::vector<std::uint64_t> counts_of_rows(C& comm, const sparse_rows<T>& g) {
  using three = std::array<std::uint64_t, 3>;
  const three own{g.rows.size(), g.height, g.width};
  std::vector<three> all(std::size_t(comm.size()));
  kolo::allgather(comm, std::span{&own, 1}, all);
  std::vector<std::uint64_t> counts;
  for (const auto& [rows, height, width] : all) {
    if (height != g.height || width != g.width)
      throw error{errc::mismatch, "sparse gradients of ranks have rows of other widths or heights"};
    counts.push_back(rows);
  }
  return counts;
}

/// Collective: returns every rank's vector, in the order of the ranks.
template <class C, class T>
std::vector<T> gathered(C& comm, const std::vector<T>& own, std::vector<std::uint64_t>& counts) {
  std::size_t total = 0;
  for (const auto n : counts) total += std::size_t(n);
  std::vector<T> all(total);
  kolo::allgather(comm, own, all, counts);
  return all;
}

/// Exchanges g by one dense allreduce, after which it has `rows`, those of every rank.
template <class C, Element T, class Op>
void densify(C& comm, sparse_rows<T>& g, std::vector<std::uint64_t> rows, const Op& op) {
  std::vector<T> dense(g.height * g.width);
  for (std::size_t i = 0; i < g.rows.size(); ++i)
    std::copy_n(g.values.data() + i * g.width, g.width, dense.data() + std::size_t(g.rows[i]) * g.width);
  kolo::allreduce(comm, dense, op);
  g.rows = std::move(rows);
  g.values.resize(g.rows.size() * g.width);
  for (std::size_t i = 0; i < g.rows.size(); ++i)
    std::copy_n(dense.data() + std::size_t(g.rows[i]) * g.width, g.width, g.values.data() + i * g.width);
}

}  // namespace detail::train

/// sparse_allreduce(comm, gradient, op [, density]): op is `sum` or `average`, or one of them in `predivide`.
///
/// Before  every rank has rows of a tensor of the same height and width; which and how many may differ.
/// After   every rank has all rows that any rank listed, ascending, each once: sum or average over all ranks, where a
///         rank that did not list a row has zeros there. The same bits on every rank.
/// Cost    an allgather of 24 bytes, one of the row numbers, and one of the rows; if more than `density` of all rows
///         are listed by any rank, one allreduce of the dense tensor instead of the last.
/// Order   equal rows of a rank in their order, then the order of the ranks; of the dense tensor, that of `allreduce`.
/// Errors  invalid_argument: a row past the height, a wrong number of values; mismatch, on all ranks: they differ in
///         height or width. Those of the collectives.
template <Communicator C, Element T, class Op>
void sparse_allreduce(C& comm, sparse_rows<T>& gradient, const Op& op, double density = 0.25) {
  static_assert(std::same_as<Op, sum_t> || std::same_as<Op, predivided<sum_t>> || detail::reduce::divides<Op>,
                "kolo: a sparse gradient is combined by kolo::sum or kolo::average");
  detail::train::check_sparse(comm, gradient);
  gradient = detail::train::merged(gradient, [](const auto& x) { return x; });
  std::vector<std::uint64_t> counts = detail::train::counts_of_rows(comm, gradient);
  sparse_rows<T> all{
      .height = gradient.height, .width = gradient.width, .rows = detail::train::gathered(comm, gradient.rows, counts)};
  auto rows = all.rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  if (double(rows.size()) > density * double(gradient.height))
    return detail::train::densify(comm, gradient, std::move(rows), op);
  for (auto& n : counts) n *= gradient.width;
  all.values = detail::train::gathered(comm, gradient.values, counts);
  gradient = detail::train::merged(all, [&](const auto& x) { return detail::train::finished(op, x, comm.size()); });
}

namespace detail::train {

/// The same for a dense gradient; `list` names the rows that can be nonzero.
template <class C, View V, class Op>
void exchange_rows(C& comm, const V& view, row_list& list, const Op& op, double density) {
  using T = typename V::element_type;
  static_assert(ContiguousView<V>, "kolo: a gradient with .rows must be contiguous");
  const std::size_t width = list.width;
  if (width == 0 || view.size() % width != 0)
    execute::refuse(*comm.engine(), "sparse_allreduce", "the width of the rows does not divide the gradient");
  std::sort(list.touched.begin(), list.touched.end());
  list.touched.erase(std::unique(list.touched.begin(), list.touched.end()), list.touched.end());
  sparse_rows<T> g{.height = view.size() / width, .width = width};
  g.rows.reserve(list.touched.size()), g.values.reserve(list.touched.size() * width);
  for (const std::size_t row : list.touched) {
    if (row >= g.height)
      execute::refuse(*comm.engine(), "sparse_allreduce", "a touched row lies past the end of its gradient");
    g.rows.push_back(row);
    g.values.insert(g.values.end(), view.data() + row * width, view.data() + (row + 1) * width);
  }
  if constexpr (requires { typename Op::wire_element; }) kolo::sparse_allreduce(comm, g, op.op, density);
  else kolo::sparse_allreduce(comm, g, op, density);
  list.touched.assign(g.rows.begin(), g.rows.end());
  for (std::size_t i = 0; i < g.rows.size(); ++i)
    std::copy_n(g.values.data() + i * width, width, view.data() + std::size_t(g.rows[i]) * width);
}

}  // namespace detail::train
}  // namespace kolo::inline KOLO_ABI

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fits constants to observations: least squares of relative errors, without negative constants.
#pragma once

#include "observation.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace kolo_bench {

namespace detail {

inline constexpr std::size_t knots = kolo::tuning::sizes.size();
inline constexpr std::size_t unknowns = 4 + 3 * knots;
inline constexpr double negligible = 1e-14;  ///< seconds; for bytes 0.01 ps
inline constexpr double stiffness = 3e9;     ///< 10 ps per byte more than the neighbour counts as an error of 3 %
using coefficients = std::array<double, unknowns>;

/// The coefficients of a row's constants in `tuning::seconds`.
inline coefficients coefficients_of(const observation& o) {
  coefficients c{};
  // Messages first: with a single number of ranks the terms cannot be separated, and the one that grows with the ranks shall get the time.
  c[0] = o.work.messages;
  c[1] = o.work.duplex_rounds;
  c[2] = o.work.hops;
  c[3] = o.work.rounds;
  const auto [i, part] = kolo::tuning::position_of(o.bytes);
  const double work[] = {o.work.bytes, o.work.shared, o.work.combined};
  for (std::size_t k = 0; k < 3; ++k) {
    c[4 + k * knots + i] = work[k] * (1 - part);
    c[4 + k * knots + i + 1] += work[k] * part;
  }
  return c;
}

/// Solves a x = 1 and `smooth` x = 0, for x >= 0, by coordinate descent.
inline coefficients solve(std::vector<coefficients> equations, const std::vector<coefficients>& smooth) {
  coefficients x{};
  std::vector<double> left(equations.size(), 1.0);  // 1 - a x
  equations.insert(equations.end(), smooth.begin(), smooth.end());
  left.resize(equations.size(), 0.0);
  for (int sweep = 0; sweep < 4000; ++sweep)
    for (std::size_t k = 0; k < unknowns; ++k) {
      double along = 0, square = 0;
      for (std::size_t i = 0; i < equations.size(); ++i)
        along += equations[i][k] * left[i], square += equations[i][k] * equations[i][k];
      if (square == 0) continue;
      double next = std::max(0.0, x[k] + along / square);
      if (next < negligible) next = 0;
      const double step = next - x[k];
      if (step == 0) continue;
      for (std::size_t i = 0; i < equations.size(); ++i) left[i] -= equations[i][k] * step;
      x[k] = next;
    }
  return x;
}

/// A size that was not measured gets its neighbour's constant.
inline void fill(kolo::tuning::per_size& values, const std::array<bool, knots>& is_known) {
  for (std::size_t i = 1; i < knots; ++i)
    if (!is_known[i]) values[i] = values[i - 1];
  for (std::size_t i = knots - 1; i-- > 0;)
    if (!is_known[i] && values[i] == 0) values[i] = values[i + 1];
}

inline kolo::tuning::row fit_row(int ranks, kolo::pattern runs_as, const std::vector<const observation*>& seen) {
  std::vector<coefficients> equations, smooth;
  std::array<bool, knots> is_known{};
  for (const auto* o : seen) {
    auto c = coefficients_of(*o);
    for (std::size_t k = 0; k < knots; ++k) is_known[k] = is_known[k] || c[4 + k] > 0;
    for (double& v : c) v /= o->seconds;
    equations.push_back(c);
  }
  for (std::size_t k = 4; k + 1 < unknowns; ++k) {  // neighbours are similar where nothing else is known
    if ((k - 3) % knots == 0) continue;
    coefficients c{};
    c[k] = stiffness, c[k + 1] = -stiffness;
    smooth.push_back(c);
  }
  const auto x = solve(equations, smooth);
  kolo::tuning::row r{.ranks = ranks, .runs_as = runs_as, .round = x[3], .hop = x[2], .duplex = x[1], .message = x[0]};
  for (std::size_t k = 0; k < knots; ++k)
    r.bytes[k] = x[4 + k], r.shared[k] = x[4 + knots + k], r.combined[k] = x[4 + 2 * knots + k];
  for (auto* values : {&r.bytes, &r.shared, &r.combined}) fill(*values, is_known);
  return r;
}
inline double middle(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}
inline double time_at(const std::map<std::size_t, std::vector<double>>& times, std::size_t bytes) {
  const auto above = times.lower_bound(bytes);
  const double n = static_cast<double>(bytes);
  if (above == times.end()) {
    const auto& [last, seconds] = *times.rbegin();
    return middle(seconds) * (last > 1 ? n / static_cast<double>(last) : 1);  // a barrier's length is 1
  }
  if (above == times.begin()) return middle(above->second);
  const auto below = std::prev(above);
  const double from = static_cast<double>(below->first),
               part = std::log(n / from) / std::log(static_cast<double>(above->first) / from);
  return middle(below->second) * std::pow(middle(above->second) / middle(below->second), part);
}
}  // namespace detail

/// One row for each number of ranks and each pattern in `all`.
inline kolo::tuning fit(const std::vector<observation>& all) {
  kolo::tuning table;
  std::map<std::pair<int, kolo::pattern>, std::vector<const observation*>> groups;
  for (const auto& o : all)
    if (o.runs_as != kolo::pattern::unknown && o.fills_blocks) groups[{o.ranks, o.runs_as}].push_back(&o);
  std::size_t n = 0;
  for (const auto& [key, seen] : groups) table.rows.at(n++) = detail::fit_row(key.first, key.second, seen);
  return table;
}

/// The times of MPI's own collectives at the lengths of a table, from the measured ones: interpolated linearly between the logarithms of both; beyond the last
/// one in proportion.
inline void fit_native(const std::vector<observation>& all, kolo::tuning& table) {
  std::map<int, std::map<kolo::kind, std::map<std::size_t, std::vector<double>>>> seen;
  for (const auto& o : all)
    if (o.algorithm == "native") seen[o.ranks][o.collective][o.bytes].push_back(o.seconds);
  std::size_t n = 0;
  for (const auto& [ranks, collectives] : seen) {
    auto& row = table.native.at(n++);
    row.ranks = ranks;
    for (const auto& [k, times] : collectives)
      for (std::size_t i = 0; i < kolo::tuning::native_sizes.size(); ++i)
        row.seconds[static_cast<std::size_t>(k)][i] = detail::time_at(times, kolo::tuning::native_sizes[i]);
  }
}

/// The bound, from the hand-written sum of two ranks.
inline void fit_bound(const std::vector<observation>& floors, kolo::tuning& table) {
  std::array<bool, detail::knots> is_known{};
  for (const auto& o : floors) {
    if (o.collective != kolo::kind::allreduce || o.ranks != 2) continue;
    if (o.bytes <= 64) table.noticed = table.noticed == 0 ? o.seconds : std::min(table.noticed, o.seconds);
    const auto nearest = kolo::tuning::position_of(o.bytes);
    const auto k = nearest.index + (nearest.part > 0.5 ? 1 : 0);
    const double each = std::max(0.0, o.seconds - table.noticed) / static_cast<double>(o.bytes);
    if (o.bytes >= 4096) table.copied[k] = is_known[k] ? std::min(table.copied[k], each) : each, is_known[k] = true;
  }
  detail::fill(table.copied, is_known);
}

}  // namespace kolo_bench

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The input, output and expected result of each collective on each rank.
#pragma once

#include "elements.hpp"

#include <string_view>

namespace kolo_bench {

/// Elements [0, count) of the rest of the result: those from `index` on of rank `source`'s input, or (source = everybody) of the reduction.
struct stretch {
  std::size_t count;
  int source;
  std::size_t index;
};
inline constexpr int everybody = -1;
constexpr int up_to(int rank) { return -2 - rank; }  ///< the reduction of ranks 0 ... rank

/// One rank's part in a collective, in elements. `n`: of the vector (allreduce, reduce, reduce_scatter, broadcast, alltoall, shift, exchange), or of one rank's
/// part (allgather, gather, scatter).
struct shape {
  std::size_t in = 0, out = 0;
  bool own_part_of_out = false;  ///< in place, the input is this rank's part of the output
  std::vector<stretch> result{};
};

inline shape shape_of(std::string_view collective, int rank, int size, std::size_t n) {
  const auto p = static_cast<std::size_t>(size), r = static_cast<std::size_t>(rank);
  const bool root = rank == 0;
  const auto parts_of_all = [&](std::size_t part, std::size_t index) {
    std::vector<stretch> all;
    for (int s = 0; s < size; ++s) all.push_back({part, s, index});
    return all;
  };
  if (collective == "allreduce") return {n, n, false, {{n, everybody, 0}}};
  if (collective == "reduce") return root ? shape{n, n, false, {{n, everybody, 0}}} : shape{n, 0};
  if (collective == "reduce_scatter") return {n, n / p, false, {{n / p, everybody, n / p * r}}};
  if (collective == "broadcast") return {root ? n : 0, n, false, {{n, 0, 0}}};
  if (collective == "allgather") return {n, n * p, true, parts_of_all(n, 0)};
  if (collective == "gather") return root ? shape{n, n * p, false, parts_of_all(n, 0)} : shape{n, 0};
  if (collective == "scatter") return {root ? n * p : 0, n, false, {{n, 0, n * r}}};
  if (collective == "scan") return {n, n, false, {{n, up_to(rank), 0}}};
  if (collective == "exclusive_scan") return root ? shape{n, n} : shape{n, n, false, {{n, up_to(rank - 1), 0}}};
  if (collective == "shift") return {n, n, false, {{n, (rank + size - 1) % size, 0}}};
  if (collective == "exchange") return {n, n, false, {{n, size - 1 - rank, 0}}};
  if (collective == "alltoall") return {n, n, false, parts_of_all(n / p, n / p * r)};
  return {};  // barrier, nothing
}

/// The largest buffer on any rank, in elements.
inline std::size_t largest(std::string_view collective, int size, std::size_t n) {
  const auto s = shape_of(collective, 0, size, n);
  return std::max({s.in, s.out, shape_of(collective, size - 1, size, n).out});
}

/// The values of rank `source`'s input, or of the reduction over all or some ranks.
inline pattern pattern_of(const std::string& element, int source, int size) {
  const int all = source == everybody ? size : -1 - source;
  if (all > 0) return {element, all * (all + 1) / 2, 1, all};
  return {element, source + 1, source + 1, source + 1};
}

inline bool is_right(const shape& s, const std::string& element, int size, const std::byte* out) {
  const auto width = element_bytes(element);
  for (const auto& part : s.result) {
    if (!pattern_of(element, part.source, size).stands_in(out, part.count * width, part.index)) return false;
    out += part.count * width;
  }
  return true;
}

}  // namespace kolo_bench

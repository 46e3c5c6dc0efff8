// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The accuracy of a table of constants: predictions compared with measurements, and choices with the best.
#pragma once

#include "fit.hpp"

#include <kolo/schedule/automatic.hpp>

#include <cstdio>

namespace kolo_bench {

inline double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

inline std::string size_name(std::size_t n) {
  char text[32];
  const double bytes = static_cast<double>(n);
  if (n >= 1 << 20) std::snprintf(text, sizeof text, "%.4g Mi", bytes / (1 << 20));
  else if (n >= 1 << 10) std::snprintf(text, sizeof text, "%.4g Ki", bytes / (1 << 10));
  else std::snprintf(text, sizeof text, "%.0f", bytes);
  return text;
}

inline std::string time_name(double seconds) {
  char text[32];
  const bool is_short = seconds < 999.5e-6;  // longer times with 3 digits would need an exponent
  std::snprintf(text, sizeof text, is_short ? "%.3g us" : "%.4g ms", seconds * (is_short ? 1e6 : 1e3));
  return text;
}

/// The fit uses these algorithms, at two of three sizes; the others are predicted.
inline bool is_for_the_fit(const observation& o, const std::set<std::size_t>& sizes) {
  static const std::set<std::string> algorithms{"ring",     "recursive_doubling", "one_shot",     "chain",
                                                "binomial", "dissemination",      "van_de_geijn", "two_shot"};
  const auto place = std::distance(sizes.begin(), sizes.find(o.bytes));
  return algorithms.count(o.algorithm) == 1 && place % 3 != 2;
}

/// The simulator's network for two ranks, with the constants of one pattern and length.
inline kolo::simulate::network network_of(const kolo::tuning& table, const observation& o) {
  const auto* const r = table.row_for(o.ranks, o.runs_as);
  if (!r) return {};
  const auto at = [&](const kolo::tuning::per_size& v) { return kolo::tuning::at(v, o.bytes); };
  return {.latency = r->round + r->hop + r->duplex,
          .overhead = r->message / 2,
          .seconds_per_byte = at(r->bytes) + at(r->shared),
          .seconds_per_byte_reduced = at(r->combined)};
}

/// Fits a table to one part of the rows, predicts the others, and prints the errors; each row into `rows`, unless that is null.
inline void print_predictions(const std::vector<observation>& all, std::FILE* rows) {
  std::map<std::pair<kolo::kind, int>, std::set<std::size_t>> sizes;
  for (const auto& o : all)
    if (o.runs_as != kolo::pattern::unknown) sizes[{o.collective, o.ranks}].insert(o.bytes);
  std::vector<observation> known, others;
  for (const auto& o : all)
    if (o.runs_as != kolo::pattern::unknown && o.fills_blocks)
      (is_for_the_fit(o, sizes[{o.collective, o.ranks}]) ? known : others).push_back(o);
  const auto table = fit(known);
  std::map<int, std::vector<double>> errors;
  std::printf(
      "Predictions and measurements, constants fitted to %zu rows (eight algorithms, two of three sizes), %zu other "
      "rows predicted\n",
      known.size(), others.size());
  if (rows)
    std::fprintf(rows, "  %-16s %-22s %6s %8s %12s %12s %8s\n", "collective", "algorithm", "ranks", "bytes", "measured",
                 "predicted", "error");
  for (const auto& o : others) {
    const double predicted = table.seconds(o.ranks, o.runs_as, o.bytes, o.work), error = predicted / o.seconds - 1;
    errors[o.ranks].push_back(std::abs(error));
    if (rows)
      std::fprintf(rows, "  %-16s %-22s %6d %8s %12s %12s %+7.0f%%\n", kolo::name(o.collective), o.algorithm.c_str(),
                   o.ranks, size_name(o.bytes).c_str(), time_name(o.seconds).c_str(), time_name(predicted).c_str(),
                   100 * error);
  }
  std::vector<double> simulated;
  for (const auto& o : others)
    if (o.ranks == 2) simulated.push_back(std::abs(o.simulate(network_of(table, o)) / o.seconds - 1));
  if (!simulated.empty())
    std::printf("  2 ranks, by kolo::simulate with the same constants: median error %.0f %%\n",
                100 * median(simulated));
  for (auto& [ranks, e] : errors) {
    std::sort(e.begin(), e.end());
    std::printf("  %d ranks: median error %.0f %%, nine in ten within %.0f %% (%zu rows)\n", ranks, 100 * median(e),
                100 * e[e.size() * 9 / 10], e.size());
  }
}

namespace detail {
struct contest {
  std::map<std::string, double> seconds{};  ///< by algorithm
};

template <kolo::kind K>
void judge(int ranks, std::size_t bytes, bool over_mpi, const contest& c, const kolo::tuning& table,
           std::map<int, std::vector<double>>& losses, std::FILE* rows) {
  namespace inside = kolo::detail::select;
  const inside::selection_query q{.collective = K,
                                  .size = ranks,
                                  .bytes = inside::least_of_class(inside::size_class(bytes)),
                                  .has_streams = !over_mpi,
                                  .has_board = !over_mpi,
                                  .allowed = kolo::order::any,
                                  .takes_native = over_mpi};
  std::span<const inside::candidate> all = inside::candidates_for<K, true>;
  if (over_mpi) all = inside::candidates_beside_native<K>;
  const std::string choice = all[inside::fastest(all, q, table)].name;
  const auto mine = c.seconds.find(choice);
  if (mine == c.seconds.end())
    return void(std::printf("  (%s of %s was not measured)\n", choice.c_str(), kolo::name(K)));
  auto best = mine;
  for (auto i = c.seconds.begin(); i != c.seconds.end(); ++i) {
    const bool is_candidate = std::any_of(all.begin(), all.end(),
                                          [&](const auto& one) { return i->first == one.name && q.is_eligible(one); });
    if (is_candidate && i->second < best->second) best = i;
  }
  const double loss = mine->second / best->second - 1;
  losses[ranks].push_back(loss);
  if (rows)
    std::fprintf(rows, "  %-16s %6d %8s   %-22s %12s   %-22s %12s %7.0f%%\n", kolo::name(K), ranks,
                 size_name(bytes).c_str(), choice.c_str(), time_name(mine->second).c_str(), best->first.c_str(),
                 time_name(best->second).c_str(), 100 * loss);
}
}  // namespace detail

/// Prints the loss of `table`'s choice compared with the fastest one.
inline void print_choices(const std::vector<observation>& all, const kolo::tuning& table, std::FILE* rows) {
  using enum kolo::kind;
  std::map<std::tuple<kolo::kind, int, std::size_t>, detail::contest> contests;
  for (const auto& o : all)
    if (o.runs_as != kolo::pattern::unknown || o.algorithm == "native")
      contests[{o.collective, o.ranks, o.bytes}].seconds[o.algorithm] = o.seconds;
  std::map<int, std::vector<double>> losses;
  const bool over_mpi = !all.empty() && all[0].over_mpi;
  std::printf("The choice and the best measured candidate\n");
  if (rows)
    std::fprintf(rows, "  %-16s %6s %8s   %-22s %12s   %-22s %12s %8s\n", "collective", "ranks", "bytes", "choice",
                 "measured", "best", "measured", "loss");
  for (const auto& [key, c] : contests) {
    const auto [k, ranks, bytes] = key;
    if (c.seconds.size() < 2) continue;
    const auto with = [&, k = k, ranks = ranks, bytes = bytes, &c = c]<kolo::kind K>() {
      if (k == K) detail::judge<K>(ranks, bytes, over_mpi, c, table, losses, rows);
    };
    with.operator()<allreduce>(), with.operator()<broadcast>(), with.operator()<allgather>(),
        with.operator()<reduce_scatter>();
    with.operator()<reduce>(), with.operator()<gather>(), with.operator()<scatter>(), with.operator()<alltoall>(),
        with.operator()<barrier>();
    with.operator()<scan>(), with.operator()<exclusive_scan>();
  }
  for (auto& [ranks, l] : losses) {
    std::sort(l.begin(), l.end());
    std::printf("  %d ranks: median loss %.0f %%, nine in ten within %.0f %%, worst %.0f %% (%zu cells)\n", ranks,
                100 * median(l), 100 * l[l.size() * 9 / 10], 100 * l.back(), l.size());
  }
}

}  // namespace kolo_bench

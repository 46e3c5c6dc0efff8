// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the results of the interleaved variants, and checks them.
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace synthetic {
namespace {

const entry* find(const std::vector<entry>& all, moment when, const std::string& cut) {
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const entry& e) { return e.how.when == when && e.how.cut == cut; });
  return it == all.end() ? nullptr : &*it;
}

double step_of(const entry& e) { return median_of(e.seconds); }

void print_ratios(const std::vector<entry>& all) {
  for (const moment when : {moment::after, moment::during, moment::helper}) {
    const entry *const planned = find(all, when, "planned"), *const after = find(all, moment::after, "planned");
    if (!planned) continue;
    if (after && planned != after)
      std::printf("%s: a step takes %.3f of the time of a step that exchanges after the backward pass.\n",
                  moments[int(when)], step_of(*planned) / step_of(*after));
    for (const auto& [cut, what] :
         {std::pair{"tensor", "a bucket for each tensor"}, std::pair{"one", "one bucket for all"}})
      if (const entry* const other = find(all, when, cut))
        std::printf("%s: planned buckets take %.3f of the time of %s.\n", moments[int(when)],
                    step_of(*planned) / step_of(*other), what);
    if (const entry* const hand = find(all, moment::after, "by hand"))
      std::printf("%s: planned buckets take %.3f of the time of MPI_Allreduce for each tensor.\n", moments[int(when)],
                  step_of(*planned) / step_of(*hand));
  }
}

/// Whether variants with the same buckets have the same bits, whenever they exchange.
bool is_alike(const std::vector<entry>& all) {
  return std::all_of(all.begin(), all.end(), [&](const entry& a) {
    return std::all_of(all.begin(), all.end(),
                       [&](const entry& b) { return a.how.cut != b.how.cut || a.digest == b.digest; });
  });
}

}  // namespace

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void print(const std::vector<entry>& all, const place& where, const settings& s) {
  std::printf(
      "\n%d ranks on %d node%s, %.3f ms of computation; %d steps of each variant, interleaved. Median and mean: of the "
      "slowest rank; the rest: of rank 0.\n",
      where.ranks, where.nodes, where.nodes == 1 ? "" : "s", 1e3 * where.seconds, s.steps);
  std::printf("%8s %8s %7s %12s %24s %11s %12s %11s %9s  %s\n", "exchange", "cut", "buckets", "median ms",
              "mean +- 1.96 sigma ms", "samples/s", "computing ms", "updating ms", "hidden %", "digest of parameters");
  for (const entry& e : all) {
    const spread mean = spread_of(e.seconds);
    std::printf("%8s %8s %7zu %12.3f %13.3f +- %7.3f %11.1f %12.3f %11.3f %9.0f  %016llx\n", moments[int(e.how.when)],
                e.how.cut.c_str(), e.buckets, 1e3 * step_of(e), 1e3 * mean.mean, 1e3 * mean.wide,
                where.ranks * s.batch / step_of(e), 1e3 * e.compute, 1e3 * e.update, 100 * e.hidden,
                static_cast<unsigned long long>(e.digest));
  }
  print_ratios(all);
}

bool check(const std::vector<entry>& all, const settings& s) {
  bool well = true;
  const auto complain = [&](const std::string& what) {
    well = false, std::fprintf(stderr, "synthetic: %s\n", what.c_str());
  };
  for (const entry& e : all) {
    const std::string name = std::string{moments[int(e.how.when)]} + ", " + e.how.cut;
    if (e.wrong > 0) complain(name + ": " + std::to_string(e.wrong) + " gradient elements were not the mean");
    if (!e.is_same_everywhere) complain(name + ": ranks have different parameters");
  }
  if (!is_alike(all)) complain("variants with the same buckets have different bits of parameters");
  if (s.expect_shorter < 0) return well;
  double best = -INFINITY;
  for (const moment when : {moment::during, moment::helper})
    if (const entry* const e = find(all, when, "planned"))
      best = std::max(best, 100 * (1 - step_of(*e) / step_of(*find(all, moment::after, "planned"))));
  if (best < s.expect_shorter)
    complain("overlap does not make a step " + std::to_string(s.expect_shorter) + " % shorter");
  return well;
}

}  // namespace synthetic

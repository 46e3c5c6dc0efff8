// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the steps of a run, and the table of all runs.
#include "report.hpp"

#include "training.hpp"

#include <cmath>
#include <cstdio>

namespace synthetic {
namespace {

spread steps_of(const run& r) { return spread_of(std::span{r.seconds}.subspan(1)); }
double samples(const run& r, const settings& s) { return double(r.ranks) * s.batch; }
const char* when(const run& r) { return r.overlaps ? "during the backward pass" : "after the backward pass"; }

}  // namespace

spread spread_of(std::span<const double> values) {
  spread s;
  const double n = double(values.size());
  for (const double x : values) s.mean += x / n;
  double squares = 0;
  for (const double x : values) squares += (x - s.mean) * (x - s.mean);
  s.wide = values.size() > 1 ? 1.96 * std::sqrt(squares / (n - 1)) : 0;
  return s;
}

void describe(const settings& s) {
  std::size_t elements = 0, now = 0;
  const auto all = tensors_of(s.model), used = tensors_of(s.model, s.shrink);
  for (const auto& t : all) elements += t.elements;
  for (const auto& t : used) now += t.elements;
  std::printf("%s: %zu gradient tensors, %zu elements", s.model.c_str(), all.size(), elements);
  if (s.shrink > 1) std::printf(", reduced by --shrink to %zu", now);
  std::printf("; real sizes, synthetic values.\n");
  if (!s.simulate.empty())
    std::printf("Each rank computes for %g ms of virtual time per step (updates take no time), ", s.compute_ms);
  else if (s.compute_exchanges > 0)
    std::printf("Each rank multiplies matrices for %g times the duration of an exchange, ", s.compute_exchanges);
  else std::printf("Each rank multiplies matrices for %g ms per step, ", s.compute_ms);
  std::printf("%.0f %% of it in the backward pass, divided among the layers by their multiplications.\n",
              100 * s.backward_share);
}

void print(const run& r, const settings& s) {
  std::printf("\n%d rank%s, exchange %s\n%6s %11s %9s %9s\n", r.ranks, r.ranks == 1 ? "" : "s", when(r), "Step",
              "samples/s", "LR", "ms");
  const auto rate = learning_rate(r.ranks);
  for (std::size_t i = 0; i < r.seconds.size(); ++i)
    if (i < 2 || i % std::size_t(s.every) == 0)
      std::printf("%6zu %11.1f %9.5f %9.3f\n", i, samples(r, s) / r.seconds[i], double(rate(int(i))),
                  1e3 * r.seconds[i]);
  const spread step = steps_of(r);
  std::printf("Steps 1 to %zu: %.3f +- %.3f ms (1.96 sigma), %.1f samples/s; %.3f ms computing, %.3f ms updating",
              r.seconds.size() - 1, 1e3 * step.mean, 1e3 * step.wide, samples(r, s) / step.mean, 1e3 * r.result.compute,
              1e3 * r.result.update);
  if (r.ranks > 1) std::printf("; %.0f %% of the exchange hidden", 100 * r.result.hidden);
  std::printf("\n");
}

void print_scaling(const std::vector<run>& runs, const settings& s) {
  const run& base = runs.front();
  const double rate = s.batch / steps_of(base).mean;  // per rank
  std::printf("\n%6s %8s %11s %10s %15s %13s %11s\n", "ranks", "overlap", "samples/s", "step ms", "communication %",
              "efficiency %", "start-up s");
  for (const run& r : runs) {
    const double step = steps_of(r).mean, own = r.result.compute + r.result.update;
    std::printf("%6d %8s %11.1f %10.3f %15.1f %13.1f %11.3f\n", r.ranks, r.overlaps ? "on" : "off",
                samples(r, s) / step, 1e3 * step, 100 * std::max(0.0, 1 - own / step),
                100 * samples(r, s) / step / (rate * r.ranks), r.result.start_up);
  }
  std::printf(
      "Communication: the part of a step that is neither computation nor update. Efficiency: relative to %.1f "
      "samples/s "
      "per rank, as in the first line.\n",
      rate);
}

bool check(const std::vector<run>& runs, const settings& s) {
  bool well = true;
  for (const run& r : runs) {
    if (r.result.wrong > 0) {
      well = false;
      std::fprintf(stderr, "synthetic: %llu gradient elements were not the mean over %d ranks\n",
                   static_cast<unsigned long long>(r.result.wrong), r.ranks);
    }
    if (!r.overlaps || &r == &runs.front() || r.ranks == 1 || (&r)[-1].ranks != r.ranks) continue;
    const double shorter = 100 * (1 - steps_of(r).mean / steps_of((&r)[-1]).mean);
    std::printf("%d ranks: overlap makes a step %.1f %% %s.\n", r.ranks, std::abs(shorter),
                shorter < 0 ? "longer" : "shorter");
    if (s.expect_shorter >= 0 && shorter < s.expect_shorter)
      well = false, std::fprintf(stderr, "synthetic: expected at least %g %% shorter\n", s.expect_shorter);
  }
  return well;
}

}  // namespace synthetic

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The summary of all runs, and the comparison of their loss curves.
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace digits {

difference compare(const std::vector<double>& a, const std::vector<double>& b, int epochs) {
  difference d;
  const auto worse = [](double& worst, double value) {
    worst = std::isfinite(value) ? std::max(worst, value) : HUGE_VAL;
  };
  for (std::size_t i = 0; i < std::min<std::size_t>(a.size(), 100); ++i)
    worse(d.step, std::abs(a[i] - b[i]) / std::max(std::abs(a[i]), 1.0));
  const auto steps = std::ptrdiff_t(a.size()) / epochs;
  const auto mean = [&](const std::vector<double>& c, int e) {
    return std::accumulate(c.begin() + e * steps, c.begin() + (e + 1) * steps, 0.0) / double(steps);
  };
  for (int e = 0; e < epochs; ++e) worse(d.epoch, std::abs(mean(a, e) - mean(b, e)) / std::max(mean(a, e), 0.1));
  return d;
}

void print_summary(const std::vector<run>& runs, const char* who) {
  std::printf("\n%9s %9s %9s %9s %9s %9s   share of the time\n", who, "Accuracy", "Seconds", "Images/s", "Limit",
              "of limit");
  for (const run& r : runs) {
    const durations& s = r.result.seconds;
    const auto part = [&](double seconds) { return 100 * seconds / s.total(); };
    const double rate = double(r.images) / s.total();
    std::printf("%9d %7.2f %% %9.2f %9.0f ", r.ranks, 100 * r.result.accuracy, s.total(), rate);
    if (r.result.apart > 0) std::printf("%9.0f %7.0f %%", r.result.apart, 100 * rate / r.result.apart);
    else std::printf("%9s %9s", "-", "-");
    std::printf("   compute %.0f %%, communication and waiting %.0f %%, update %.0f %%, evaluation %.0f %%\n",
                part(s.compute), part(s.communication), part(s.update), part(s.judging));
  }
  const bool any = std::any_of(runs.begin(), runs.end(), [](const run& r) { return r.result.apart > 0; });
  if (any)
    std::printf("Limit: images/s of as many independent trainings at once, without communication, on this machine.\n");
  std::printf("\n");
  for (const run& r : runs)
    std::printf("Parameters on %d rank%s: %016llx\n", r.ranks, r.ranks == 1 ? "" : "s",
                static_cast<unsigned long long>(r.result.digest));
}

bool print_curves(const std::vector<run>& runs, int epochs, const char* who) {
  bool same = true;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const difference d = compare(runs[0].curve, runs[i].curve, epochs);
    same = same && d.within_tolerance();
    std::printf("%s: the losses on %d and on %d %s differ by at most %.0e in the first 100 steps (allowed: %.0e), ",
                d.within_tolerance() ? "Same training curve" : "NOT THE SAME TRAINING CURVE", runs[0].ranks,
                runs[i].ranks, who, d.step, difference::step_tolerance);
    std::printf("means over an epoch by at most %.0e (allowed: %.0e)\n", d.epoch, difference::epoch_tolerance);
  }
  return same;
}

bool check_bits(const std::vector<run>& runs) {
  const bool same =
      std::all_of(runs.begin(), runs.end(), [&](const run& r) { return r.result.digest == runs[0].result.digest; });
  std::printf("%s\n", same ? "All trainings ended with the same parameters, bit for bit."
                           : "NOT THE SAME: the trainings ended with different parameters.");
  return same;
}

void print_beside(const std::vector<run>& synchronous, const std::vector<run>& local, const settings& s) {
  std::printf("\nLocal steps, an outer step every %d steps, %d fragment%s, delay %d:", s.outer, s.fragments,
              s.fragments == 1 ? "" : "s", s.delay);
  print_summary(local, s.simulate.empty() ? "Processes" : "Ranks");
  for (std::size_t i = 0; i < local.size(); ++i)
    std::printf("Accuracy on %d %s: %.2f %% with local steps, %.2f %% with synchronous steps\n", local[i].ranks,
                s.who(), 100 * local[i].result.accuracy, 100 * synchronous[i].result.accuracy);
}

bool check_accuracy(const std::vector<run>& runs, const settings& s) {
  bool good = true;
  for (const run& r : runs) {
    const double percent = 100 * r.result.accuracy;
    if (percent > s.accuracy_above && percent < s.accuracy_below) continue;
    std::printf("NOT AS EXPECTED: %.2f %% on %d %s instead of more than %g %% and less than %g %%\n", percent, r.ranks,
                s.who(), s.accuracy_above, s.accuracy_below);
    good = false;
  }
  return good;
}

}  // namespace digits

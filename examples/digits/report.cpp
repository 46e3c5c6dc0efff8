// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The end of the program: what every number of processes has achieved, and whether all have learned the same.
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
  std::printf("\n%9s %9s %9s %9s %9s %9s   where the time went\n", who, "Accuracy", "Seconds", "Images/s", "Apart",
              "of that");
  for (const run& r : runs) {
    const durations& s = r.result.seconds;
    const auto part = [&](double seconds) { return 100 * seconds / s.total(); };
    const double rate = double(r.images) / s.total();
    std::printf("%9d %7.2f %% %9.2f %9.0f ", r.ranks, 100 * r.result.accuracy, s.total(), rate);
    if (r.result.apart > 0) std::printf("%9.0f %7.0f %%", r.result.apart, 100 * rate / r.result.apart);
    else std::printf("%9s %9s", "-", "-");
    std::printf("   compute %.0f %%, communication and waiting %.0f %%, update %.0f %%, judging %.0f %%\n",
                part(s.compute), part(s.communication), part(s.update), part(s.judging));
  }
  const bool any = std::any_of(runs.begin(), runs.end(), [](const run& r) { return r.result.apart > 0; });
  if (any)
    std::printf(
        "Apart: images/s of as many independent trainings at once, without communication: the limit of this "
        "machine.\n");
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
    std::printf("%s: the loss on %d and on %d %s differs by %.0e at most in the first steps (%.0e is allowed), ",
                d.within_tolerance() ? "Same training curve" : "NOT THE SAME TRAINING CURVE", runs[0].ranks,
                runs[i].ranks, who, d.step, difference::step_tolerance);
    std::printf("over an epoch by %.0e (%.0e)\n", d.epoch, difference::epoch_tolerance);
  }
  return same;
}

bool check_bits(const std::vector<run>& runs) {
  const bool same =
      std::all_of(runs.begin(), runs.end(), [&](const run& r) { return r.result.digest == runs[0].result.digest; });
  std::printf("%s\n",
              same ? "The same parameters, bit for bit, however many learned." : "OTHER PARAMETERS on some of them.");
  return same;
}

void print_beside(const std::vector<run>& synchronous, const std::vector<run>& local, const settings& s) {
  std::printf("\nLocal steps, an outer step every %d of them, %d fragment%s, a delay of %d:", s.outer, s.fragments,
              s.fragments == 1 ? "" : "s", s.delay);
  print_summary(local, s.simulate.empty() ? "Processes" : "Ranks");
  for (std::size_t i = 0; i < local.size(); ++i)
    std::printf("%d %s: %.2f %% by local steps, %.2f %% by synchronous ones\n", local[i].ranks, s.who(),
                100 * local[i].result.accuracy, 100 * synchronous[i].result.accuracy);
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

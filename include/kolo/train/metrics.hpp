// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers over all ranks: means of metrics, moments of samples, the steps that every rank can take.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/train/leaves.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// Replaces every metric by its mean over the ranks, on every rank, in one allreduce. Means over samples stay right
/// only if every rank has the same number of samples.
void average_metrics(auto& comm, std::span<double> metrics, call_site site = call_site::here()) {
  kolo::allreduce(comm, metrics, average, {}, site);
}

/// The same for means over this rank's `samples` samples, which may be 0: results are means over all ranks' samples
/// (NaN if no rank has any).
void average_metrics(auto& comm, std::span<double> metrics, std::size_t samples, call_site site = call_site::here()) {
  std::vector<double> sums(metrics.begin(), metrics.end());
  for (double& s : sums) s = samples > 0 ? s * double(samples) : 0;
  sums.push_back(double(samples));
  kolo::allreduce(comm, sums, sum, {}, site);
  for (std::size_t i = 0; i < metrics.size(); ++i) metrics[i] = sums[i] / sums.back();
}

/// Returns the mean of each metric over all leaves of a step, the same bits on any number of ranks. Before: `of_leaves`
/// has this rank's metrics, leaf after leaf (leaves, metrics). Errors: `invalid_argument` for leaves that no optimizer
/// takes; those of `kolo::allgather`.
std::vector<double> average_metrics(auto& comm, std::span<const double> of_leaves, leaves all,
                                    call_site site = call_site::here()) {
  const auto number = std::size_t(all.number);
  const extent own = detail::train::checked(all, comm.size()).of(comm.rank(), comm.size());
  const std::size_t metrics = of_leaves.size() / own.count;
  std::vector<std::size_t> counts;
  for (int r = 0; r < comm.size(); ++r) counts.push_back(all.of(r, comm.size()).count * metrics);
  std::vector<double> of_all(number * metrics);
  kolo::allgather(comm, of_leaves, of_all, counts, {}, site);
  std::vector<detail::train::subtree> known;
  for (std::size_t leaf = 0; leaf < number; ++leaf)
    detail::train::join(known, {leaf, 1, leaf}, [&](std::size_t left, std::size_t right) {
      for (std::size_t i = 0; i < metrics; ++i) of_all[left * metrics + i] += of_all[right * metrics + i];
    });
  of_all.resize(metrics);
  for (double& x : of_all) x /= double(number);
  return of_all;
}

/// Count, mean, and sum of squared distances from the mean, of the numbers of one channel, for batch normalisation.
struct moments {
  double count = 0;    ///< how many numbers
  double mean = 0;     ///< of the numbers
  double squares = 0;  ///< sum of squared distances from the mean
  /// The variance of these numbers: divided by the count, not by one less.
  constexpr double variance() const { return count > 0 ? squares / count : 0; }
};

/// The moments of two sets of numbers together, without cancellation if means are large. A set without numbers is
/// ignored, even if its mean is 0 / 0. Chan, Golub, LeVeque, "Updating formulae...", 1979.
struct merge_moments {
  static constexpr bool commutative = false;  // rounding depends on the order
  constexpr moments operator()(const moments& a, const moments& b) const {
    if (a.count == 0 || b.count == 0) return a.count > 0 ? a : b.count > 0 ? b : moments{};
    const double n = a.count + b.count, apart = b.mean - a.mean;
    return {n, a.mean + apart * (b.count / n), a.squares + b.squares + apart * apart * (a.count * b.count / n)};
  }
};

/// Replaces the moments of every channel by those of all ranks' numbers together; ranks may have different counts, also
/// 0. The same bits on every rank.
void sync_moments(auto& comm, std::span<moments> channels, call_site site = call_site::here()) {
  kolo::allreduce(comm, channels, merge_moments{}, {}, site);
}

/// Collective: returns the number of steps of an epoch that every rank can take, the minimum of `own`, for which this
/// rank has data.
std::size_t agreed_steps(auto& comm, std::size_t own, call_site site = call_site::here()) {
  std::uint64_t steps = own;
  kolo::allreduce(comm, std::span{&steps, 1}, min, {}, site);
  return steps;
}

}  // namespace kolo::inline KOLO_ABI

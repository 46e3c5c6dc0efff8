// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statistics over the samples of each series, written through Google Benchmark.
#include "rows.hpp"

#include <benchmark/benchmark.h>

#include <optional>

namespace kolo_bench {

namespace {

class silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

std::vector<double> times(const series& s, const std::string& distance) {
  std::vector<double> all;
  for (const auto& x : s.samples)
    if (x.distance == distance) all.push_back(x.nanoseconds);
  return all;
}

/// other / mine in the rounds in which both ran at this distance.
std::vector<double> ratios(const series& other, const series& mine, const std::string& distance) {
  std::vector<double> all;
  for (const auto& a : other.samples)
    for (const auto& b : mine.samples)
      if (a.round == b.round && a.distance == distance && b.distance == distance)
        all.push_back(a.nanoseconds / b.nanoseconds);
  return all;
}

/// The median of the ratios.
std::optional<double> ratio(const series& other, const series& mine, const std::string& distance) {
  const auto all = ratios(other, mine, distance);
  if (all.empty()) return {};
  return quantile(all, 0.5);
}

/// The series with the smallest median, of those for which belongs(series) is true.
template <class Belongs>
const series* fastest(const std::vector<series>& all, const std::string& distance, Belongs belongs) {
  const series* best = nullptr;
  double time = 0;
  for (const auto& s : all) {
    if (!belongs(s)) continue;
    const double t = quantile(times(s, distance), 0.5);
    if (t > 0 && (!best || t < time)) best = &s, time = t;
  }
  return best;
}

bool is_over_mpi(const series& s) { return s.implementation == "kolo_mpich" || s.implementation == "kolo_openmpi"; }

const series* faster_mpi(const std::vector<series>& all, const series& mine, const std::string& distance) {
  return fastest(all, distance, [&](const series& s) {
    if (is_over_mpi(mine))
      return s.implementation == mine.implementation && s.algorithm == "MPI" && s.where == mine.where;
    return (s.implementation == "mpich" || s.implementation == "openmpi") && s.where == mine.where;
  });
}

bool is_peer(const series& s) {
  return s.implementation == "mpich" || s.implementation == "openmpi" || s.implementation == "gloo";
}

/// For kolo over MPI: that MPI, in the same processes.
const series* fastest_peer(const std::vector<series>& all, const series& mine, const std::string& distance) {
  if (is_peer(mine)) return nullptr;
  if (is_over_mpi(mine)) return mine.algorithm == "MPI" ? nullptr : faster_mpi(all, mine, distance);
  return fastest(all, distance, [&](const series& s) { return is_peer(s) && s.where == mine.where; });
}

const series* bound(const std::vector<series>& all, const series& mine, const std::string& distance) {
  return fastest(all, distance, [&](const series& s) {
    return s.implementation == "floor" && s.buffers == mine.buffers && s.where == mine.where;
  });
}

/// algbw, and busbw, in bytes per nanosecond.
std::pair<double, double> bandwidth(const cell& c, double nanoseconds) {
  const auto p = static_cast<double>(c.ranks);
  const bool parts = c.collective == "allgather" || c.collective == "gather" || c.collective == "scatter";
  const double algbw = static_cast<double>(c.bytes) * (parts ? p : 1) / nanoseconds;
  if (c.collective == "allreduce") return {algbw, algbw * 2 * (p - 1) / p};
  if (c.collective == "broadcast" || c.collective == "reduce" || c.collective == "shift" ||
      c.collective == "exchange" || c.collective.ends_with("scan"))
    return {algbw, algbw};
  return {algbw, algbw * (p - 1) / p};
}

std::string name_of(const series& s, const std::string& distance) {
  std::string name = s.where.collective;
  for (const auto& part : {s.algorithm, s.implementation, std::to_string(s.where.bytes), std::to_string(s.where.ranks),
                           s.where.element, s.where.place, s.buffers, s.where.mode, distance})
    name += '/' + part;
  return name;
}

std::map<std::string, double> counters_of(const std::vector<series>& all, const series& s,
                                          const std::string& distance) {
  const auto t = times(s, distance);
  const double p50 = quantile(t, 0.5);
  const auto [algbw, busbw] = bandwidth(s.where, p50);
  std::map<std::string, double> made{{"p10", quantile(t, 0.1)}, {"p50", p50},
                                     {"p90", quantile(t, 0.9)}, {"algbw", algbw},
                                     {"busbw", busbw},          {"bursts", static_cast<double>(t.size())}};
  std::vector<double> pings;
  for (const auto& x : s.samples)
    if (x.distance == distance) pings.push_back(x.ping_pong);
  made["pingpong"] = quantile(pings, 0.5);
  if (const auto* floor = bound(all, s, distance))
    if (const auto r = ratio(*floor, s, distance)) made["percent_of_bound"] = 100 * *r;
  if (const auto* mpi = faster_mpi(all, s, distance))
    if (const auto r = ratio(*mpi, s, distance)) made["mpi_ratio"] = *r;
  if (const auto* peer = fastest_peer(all, s, distance))
    if (const auto r = ratios(s, *peer, distance); !r.empty())
      for (const auto& [name, share] : {std::pair{"peer_p10", 0.1}, {"peer_p50", 0.5}, {"peer_p90", 0.9}})
        made[name] = quantile(r, share);
  return made;
}

void register_row(const std::vector<series>& all, const series& s, const std::string& distance) {
  const auto t = times(s, distance);
  if (t.empty()) return;
  const auto run = [t, counters = counters_of(all, s, distance)](benchmark::State& state) {
    std::size_t i = 0;
    for (auto _ : state) state.SetIterationTime(t[i++ % t.size()] * 1e-9);
    for (const auto& [name, value] : counters) state.counters[name] = value;
  };
  benchmark::RegisterBenchmark(name_of(s, distance).c_str(), run)
      ->UseManualTime()
      ->Iterations(static_cast<benchmark::IterationCount>(t.size()))
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

void write_rows(const measurement& m, const std::string& file,
                const std::vector<std::pair<std::string, std::string>>& context) {
  for (const auto& [name, value] : context) benchmark::AddCustomContext(name, value);
  for (const auto& s : m.results())
    for (const auto* distance : {"near", "far"}) register_row(m.results(), s, distance);
  std::vector<std::string> words{"kolo_bench", "--benchmark_out=" + file, "--benchmark_out_format=json"};
  std::vector<char*> arguments;
  for (auto& w : words) arguments.push_back(w.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  silent nothing;
  benchmark::RunSpecifiedBenchmarks(&nothing);
}

}  // namespace kolo_bench

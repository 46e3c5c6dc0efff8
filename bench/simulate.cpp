// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The speed of simulations: the clock of schedules, one rank for all, shared cards, and whole programs in virtual time.
#include <benchmark/benchmark.h>
#include <kolo/collective/allreduce.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/simulate/run.hpp>
#include <kolo/simulate/simulated.hpp>

#include <string>
#include <vector>

using namespace kolo;

namespace {

constexpr simulate::network one_level{}, noisy{.noise = 0.1}, nodes_of_8{.ranks_per_node = 8},
    with_cards{.ranks_per_node = 8, .cards_per_node = 2};

/// 4 KB for each rank; `messages`: of all ranks together.
template <Schedule S>
void row(const char* name, const S& schedule, int ranks, const simulate::network& n, double messages) {
  const auto bytes = static_cast<std::size_t>(ranks) * 4096;
  benchmark::RegisterBenchmark((std::string{name} + "/" + std::to_string(ranks)).c_str(), [=](benchmark::State& state) {
    double seconds = 0;
    for (auto _ : state) benchmark::DoNotOptimize(seconds = simulate::run(schedule, ranks, bytes, n));
    state.counters["virtual_ms"] = seconds * 1e3;
    state.counters["messages"] = benchmark::Counter(messages, benchmark::Counter::kIsIterationInvariantRate);
  })->Unit(benchmark::kMillisecond);
}

void program(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0));
  double seconds = 0;
  for (auto _ : state)
    seconds = virtual_time::run(ranks, one_level, [](auto& comm) {
                std::vector<float> x(10'000, 1.0f);
                allreduce(comm, x, sum, circulant{});
              }).seconds;
  state.counters["virtual_ms"] = seconds * 1e3;
}

double ring_messages(double p) { return 2 * p * (p - 1); }

}  // namespace

int main(int argc, char** argv) {
  row("one rank for all: ring allreduce", ring::allreduce{}, 1'000'000, one_level, ring_messages(1e6));
  row("one rank for all: circulant allreduce", circulant::allreduce{}, 1'000'000, one_level, 40e6);
  row("one rank for all: dissemination barrier", dissemination::barrier{}, 1'000'000, one_level, 20e6);
  row("every rank, noise: ring allreduce", ring::allreduce{}, 4096, noisy, ring_messages(4096));
  row("every rank, two levels: ring allreduce", ring::allreduce{}, 4096, nodes_of_8, ring_messages(4096));
  row("every rank, two levels: circulant allreduce", circulant::allreduce{}, 4096, nodes_of_8, 4096 * 24);
  row("in order, cards: ring allreduce", ring::allreduce{}, 1024, with_cards, ring_messages(1024));
  benchmark::RegisterBenchmark("a program: circulant allreduce of 40 kB", program)
      ->Arg(64)
      ->Arg(512)
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}

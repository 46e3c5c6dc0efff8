// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training with synthetic gradients: checks that they are averaged, and measures the cost of the exchange and how much of it is hidden.
#include "../digits/outcome.hpp"
#include "compare.hpp"
#include "report.hpp"
#include "trainer.hpp"

#include <kolo/adapt/json.hpp>
#include <kolo/launch/processes.hpp>
#include <kolo/simulate/simulated.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace synthetic {
namespace {

run on_processes(int ranks, bool overlaps, const settings& s) {
  const digits::shared_array<outcome> out{1};
  const digits::shared_array<double> seconds{std::size_t(s.steps)};
  const double since = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  const int status = kolo::shm::launch(ranks, [&](auto& comm) {
    with_algorithm(s.algorithm, [&](auto algorithm) {
      train(comm, algorithm, s, overlaps, since, out.values()[0], seconds.values());
    });
  });
  if (status != 0) throw std::runtime_error("the run on " + std::to_string(ranks) + " processes failed");
  return {ranks, overlaps, out.values()[0], {seconds.values().begin(), seconds.values().end()}};
}

run on_simulated_ranks(int ranks, bool overlaps, const settings& s) {
  const auto network = kolo::simulate::read_network(s.simulate);
  run r{ranks, overlaps, {}, std::vector<double>(std::size_t(s.steps))};
  kolo::virtual_time::run(ranks, network, [&](auto& comm) {
    with_algorithm(s.algorithm, [&](auto algorithm) { train(comm, algorithm, s, overlaps, 0, r.result, r.seconds); });
  });
  return r;
}

int compare_on_processes(const settings& s) {
  int status = 0;
  for (const int ranks : s.ranks)
    if (ranks > 1) status |= kolo::shm::launch(ranks, [&](auto& comm) { return compare(comm, s, [](auto&) {}); });
  return status;
}

int run_all(const settings& s) {
  if (s.compares) return compare_on_processes(s);
  describe(s);
  std::vector<run> runs;
  for (const int ranks : s.ranks)
    for (const bool overlaps : s.modes()) {
      std::fflush(stdout);
      runs.push_back(s.simulate.empty() ? on_processes(ranks, overlaps, s) : on_simulated_ranks(ranks, overlaps, s));
      print(runs.back(), s);
    }
  print_scaling(runs, s);
  return check(runs, s) ? 0 : 1;
}

}  // namespace
}  // namespace synthetic

int main(int argc, char** argv) {
  try {
    return synthetic::run_all(synthetic::parse(argc, argv));
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "synthetic: %s\n", e.what());
    return 1;
  }
}

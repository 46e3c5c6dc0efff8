// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and checks the command line.
#include "settings.hpp"

#include "models.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace synthetic {
namespace {

template <std::size_t N>
CLI::Validator one_of(const char* const (&names)[N]) {
  return CLI::IsMember{std::vector<std::string>(std::begin(names), std::end(names))};
}

void add_options(CLI::App& app, settings& s) {
  app.add_option("--model", s.model, "Model whose tensor sizes are used")->check(one_of(models))->capture_default_str();
  app.add_option("--compute-ms", s.compute_ms, "Milliseconds of computation per rank and step; virtual with --simulate")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--backward", s.backward_share, "Fraction of the computation that is the backward pass")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--progress-us", s.progress_us,
                 "Microseconds between two calls of the optimizer's progress() during the backward pass")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--batch", s.batch, "Samples per rank and step, for the printed samples/s")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--bucket-bytes", s.bucket_bytes, "Largest bucket of gradients; 0: chosen by the cost model")
      ->capture_default_str();
  app.add_option("--algorithm", s.algorithm, "Allreduce algorithm for gradients")
      ->check(one_of(algorithms))
      ->capture_default_str();
  app.add_option(
         "--steps", s.steps,
         "Number of steps; the first is not in the means. With --compare and over MPI: of each variant, after one "
         "that is not measured")
      ->check(CLI::Range(3, 1'000'000))
      ->capture_default_str();
  app.add_option("--shrink", s.shrink, "Divide the size of every tensor by this")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--expect-shorter", s.expect_shorter,
                 "Fail unless overlap shortens the mean step of several ranks by at least this, in per cent");
}

void add_comparison(CLI::App& app, settings& s) {
  app.add_option("--when", s.moments,
                 "When to exchange: after the backward pass; during it, by calls of progress(); during it, by a helper "
                 "thread of each rank. Names separated by commas are compared")
      ->delimiter(',')
      ->check(one_of(moments))
      ->capture_default_str();
  app.add_option("--cut", s.cuts,
                 "Buckets: as the optimizer plans them, one for each tensor, or one for all. Names separated by commas "
                 "are compared")
      ->delimiter(',')
      ->check(one_of(cuts))
      ->capture_default_str();
  app.add_option("--compute-exchanges", s.compute_exchanges,
                 "Computation per step as a multiple of the measured duration of an exchange, instead of --compute-ms")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void add_processes(CLI::App& app, settings& s) {
  app.add_option("--ranks", s.ranks, "Numbers of processes, or of simulated ranks, separated by commas: one run each")
      ->delimiter(',')
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  app.add_option("--overlap", s.overlap, "Exchange during the backward pass: on, off, or one run of each")
      ->check(CLI::IsMember({"on", "off", "both"}))
      ->capture_default_str();
  app.add_option("--every", s.every, "Print a line of the table every N steps")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--compare", s.compares, "Compare the variants of --when and --cut in one run, with interleaved steps");
  app.add_option("--simulate", s.simulate, "Run on simulated ranks of the network described in this JSON file");
}

void add_mpi(CLI::App& app, settings& s) {
  app.add_option("--transport", s.transport,
                 "mpi: MPI only; routed: shared memory among the ranks of a host, MPI between hosts")
      ->check(one_of(transports))
      ->capture_default_str();
  app.add_flag("!--no-hand", s.by_hand, "Do not compare with one MPI_Allreduce for each tensor");
  app.add_flag("!--no-finalize", s.finalizes,
               "Exit without MPI_Finalize, which does not always return over TCP (MPICH 4.0, UCX 1.13)");
}

bool has(const std::vector<std::string>& all, const char* name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

/// --expect-shorter needs runs with and without overlap.
void check_expectation(const settings& s) {
  if (s.expect_shorter < 0) return;
  const bool overlaps = has(s.moments, "during") || has(s.moments, "helper");
  if (s.compares && !(has(s.moments, "after") && overlaps && has(s.cuts, "planned")))
    throw CLI::ValidationError("--expect-shorter", "needs --when after and during or helper, and --cut planned");
  if (!s.compares && s.overlap != "both") throw CLI::ValidationError("--expect-shorter", "needs --overlap both");
}

}  // namespace

settings parse(int argc, char** argv, bool over_mpi) {
  settings s;
  CLI::App app{
      "Exchanges gradients with the sizes of a real model next to a computation of a chosen length, checks that they "
      "are "
      "averaged, and measures the cost of the exchange."};
  add_options(app, s);
  add_comparison(app, s);
  over_mpi ? add_mpi(app, s) : add_processes(app, s);
  try {
    app.parse(argc, argv);
    s.compares = s.compares || over_mpi;
    if (s.compares && !s.simulate.empty()) throw CLI::ValidationError("--compare", "needs real ranks");
    check_expectation(s);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  return s;
}

}  // namespace synthetic

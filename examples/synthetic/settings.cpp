// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the command line; whatever is wrong with it is said in a sentence, before anything else happens.
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
  app.add_option("--model", s.model, "Whose tensors are exchanged")->check(one_of(models))->capture_default_str();
  app.add_option("--compute-ms", s.compute_ms, "Milliseconds that a rank computes in a step: busy, or virtual")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--backward", s.backward_share, "Part of it that is the backward pass")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--progress-us", s.progress_us, "Microseconds between two looks at what is under way")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--batch", s.batch, "Samples for which a rank's step stands")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--bucket-bytes", s.bucket_bytes, "No bucket is longer; 0: chosen by the cost model")
      ->capture_default_str();
  app.add_option("--algorithm", s.algorithm, "How gradients are averaged")
      ->check(one_of(algorithms))
      ->capture_default_str();
  app.add_option("--steps", s.steps,
                 "Steps; the first is not in the means. Where ways take turns, one more comes before")
      ->check(CLI::Range(3, 1'000'000))
      ->capture_default_str();
  app.add_option("--shrink", s.shrink, "Every tensor divided by this")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--expect-shorter", s.expect_shorter,
                 "Fail unless overlap shortens every step of several ranks by so many per cent");
}

void add_comparison(CLI::App& app, settings& s) {
  app.add_option("--when", s.moments,
                 "Compared: exchange after the backward pass, during it by calls, during it by a second thread")
      ->delimiter(',')
      ->check(one_of(moments))
      ->capture_default_str();
  app.add_option("--cut", s.cuts, "Compared: buckets as planned, one for each tensor, one for all")
      ->delimiter(',')
      ->check(one_of(cuts))
      ->capture_default_str();
  app.add_option("--compute-exchanges", s.compute_exchanges,
                 "A rank computes so many times as long as an exchange takes, instead of --compute-ms")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void add_processes(CLI::App& app, settings& s) {
  app.add_option("--ranks", s.ranks, "Numbers of processes or of simulated ranks, one run after another")
      ->delimiter(',')
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  app.add_option("--overlap", s.overlap, "Exchange during the backward pass")
      ->check(CLI::IsMember({"on", "off", "both"}))
      ->capture_default_str();
  app.add_option("--every", s.every, "A line of the table after so many steps")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--compare", s.compares, "Ways of exchanging (--when, --cut) take turns in one run");
  app.add_option("--simulate", s.simulate, "Simulated ranks, on the network that this JSON file describes");
}

void add_mpi(CLI::App& app, settings& s) {
  app.add_option("--transport", s.transport, "MPI alone, or routed: shared memory among the ranks of a host")
      ->check(one_of(transports))
      ->capture_default_str();
  app.add_flag("!--no-hand", s.by_hand, "Do not compare with one MPI_Allreduce for each tensor");
  app.add_flag("!--no-finalize", s.finalizes,
               "Leave without MPI_Finalize, which over TCP does not always end (MPICH 4.0, UCX 1.13)");
}

bool has(const std::vector<std::string>& all, const char* name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

/// Is there something to compare what is expected with?
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
      "Exchanges the gradients of a real model beside a compute phase of a chosen length: do the machines talk, and at "
      "what cost?"};
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

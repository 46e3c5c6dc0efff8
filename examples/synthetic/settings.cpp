// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the command line; whatever is wrong with it is said in a sentence, before anything else happens.
#include "settings.hpp"

#include "models.hpp"

#include <CLI/CLI.hpp>

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
  app.add_option("--ranks", s.ranks, "Numbers of processes or of simulated ranks, one run after another")
      ->delimiter(',')
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  app.add_option("--compute-ms", s.compute_ms, "Milliseconds that a rank computes in a step: busy, or virtual")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--backward", s.backward_share, "Part of it that is the backward pass")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app.add_option("--progress-us", s.progress_us, "Microseconds between two looks at what is under way")->check(CLI::Range(1.0, 1e6))->capture_default_str();
  app.add_option("--batch", s.batch, "Samples for which a rank's step stands")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--overlap", s.overlap, "Exchange during the backward pass")->check(CLI::IsMember({"on", "off", "both"}))->capture_default_str();
  app.add_option("--bucket-bytes", s.bucket_bytes, "No bucket is longer; 0: chosen by the cost model")->capture_default_str();
  app.add_option("--algorithm", s.algorithm, "How gradients are averaged")->check(one_of(algorithms))->capture_default_str();
  app.add_option("--steps", s.steps, "Steps; the first is not in the means")->check(CLI::Range(3, 1'000'000))->capture_default_str();
  app.add_option("--every", s.every, "A line of the table after so many steps")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  app.add_option("--shrink", s.shrink, "Every tensor divided by this")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--simulate", s.simulate, "Simulated ranks, on the network that this JSON file describes");
  app.add_option("--expect-shorter", s.expect_shorter, "Fail unless overlap shortens every step of several ranks by so many per cent");
}

}  // namespace

settings parse(int argc, char** argv) {
  settings s;
  CLI::App app{"Exchanges the gradients of a real model beside a compute phase of a chosen length: do the machines talk, and at what cost?"};
  add_options(app, s);
  try {
    app.parse(argc, argv);
    if (s.expect_shorter >= 0 && s.overlap != "both") throw CLI::ValidationError("--expect-shorter", "needs --overlap both");
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  return s;
}

}  // namespace synthetic

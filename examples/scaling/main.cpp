// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predicts how training scales on a described network, or the fastest algorithm for each size there.
#include "study.hpp"
#include "which.hpp"

#include <kolo/adapt/json.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

namespace {

struct settings {
  scaling::study study;
  std::string network = KOLO_SCALING_NETWORK, csv, wire = "float32";
  bool which = false;
  int ranks = 256;
};

void add_options(CLI::App& app, settings& s) {
  app.add_option("--network", s.network, "JSON file that describes the network (kolo/adapt/json.hpp)")
      ->capture_default_str();
  app.add_option("--gpus", s.study.gpus, "Numbers of GPUs, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--rate", s.study.rate, "Images per second of one GPU without communication")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch", s.study.batch, "Images per GPU and step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--backward", s.study.backward_share, "Fraction of a step's computation that is the backward pass")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--overlap", s.study.overlap,
                 "1: exchange during the backward pass; 0: after it; between: a part of it")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--bucket-mib", s.study.bucket_mib, "Largest bucket of gradients, in MiB")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--wire", s.wire, "Element type of gradients on the wire")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--algorithm", s.study.algorithm,
                 "Algorithm of every allreduce, instead of the fastest for each bucket");
  app.add_option("--csv", s.csv, "Also write the table to this CSV file");
  app.add_flag("--which", s.which, "Instead, print the fastest algorithm for each range of sizes");
  app.add_option("--ranks", s.ranks,
                 "With --which: number of ranks (256 take three seconds of computation, 1024 almost a minute)")
      ->check(CLI::Range(2, 4096))
      ->capture_default_str();
}

void run(settings& s) {
  const auto network = kolo::simulate::read_network(s.network);
  s.study.wire_bytes = s.wire == "float32" ? 4 : 2;
  if (s.which) return scaling::print_which(s.ranks, network, s.network);
  const auto rows = scaling::predict(s.study, network);
  scaling::print(s.study, rows, s.network);
  if (!s.csv.empty()) scaling::write_csv(rows, s.csv);
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  CLI::App app{
      "Predicts data-parallel training of ResNet-50 from gradient sizes, the time of the backward pass and a described "
      "network."};
  add_options(app, s);
  CLI11_PARSE(app, argc, argv);
  try {
    run(s);
    return 0;
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "scaling: %s\n", e.what());
    return 1;
  }
}

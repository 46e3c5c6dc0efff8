// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predicts how training scales on a described network, or says which algorithm is the fastest there.
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
  app.add_option("--network", s.network, "The network, as JSON (kolo/adapt/json.hpp)")->capture_default_str();
  app.add_option("--gpus", s.study.gpus, "Numbers of GPUs")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--rate", s.study.rate, "Images per second of one GPU that waits for nobody")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch", s.study.batch, "Images per GPU and step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--backward", s.study.backward_share, "Part of a step's computing that is the backward pass")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--overlap", s.study.overlap, "1: exchange while the backward pass runs; 0: after it")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--bucket-mib", s.study.bucket_mib, "Most MiB of gradients that are exchanged together")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--wire", s.wire, "Type of a gradient on its way")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--algorithm", s.study.algorithm, "Of every bucket's allreduce, instead of the fastest");
  app.add_option("--csv", s.csv, "Write the table to this file as well");
  app.add_flag("--which", s.which, "Say instead which algorithm is the fastest from which size on");
  app.add_option("--ranks", s.ranks, "For --which: 256 take three seconds, 1024 most of a minute")
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

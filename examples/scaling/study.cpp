// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predicts the steps of data-parallel training, and prints them next to published figures.
#include "study.hpp"

#include "predict.hpp"

#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace scaling {
namespace {

std::vector<bucket> buckets_for(const study& s) {
  return buckets_of(resnet50(), static_cast<std::size_t>(s.bucket_mib * 1024 * 1024 / sizeof(float)));
}

row predict_row(const study& s, const std::vector<bucket>& buckets, int gpus, const kolo::simulate::network& n) {
  row r{.gpus = gpus};
  const double compute = s.batch / s.rate, backward = s.backward_share * compute;
  r.seconds = step_seconds({compute - backward, backward, s.overlap}, buckets, [&](const bucket& b) {
    if (gpus == 1) return 0.0;
    const auto best = fastest(kolo::kind::allreduce, gpus, b.elements * s.wire_bytes, n, s.algorithm);
    if (r.algorithms.empty() || r.algorithms.back() != best.algorithm) r.algorithms.push_back(best.algorithm);
    return best.seconds;
  });
  r.rate = gpus * s.batch / r.seconds;
  r.communication = 1 - compute / r.seconds;
  r.efficiency = r.rate / (gpus * s.rate);
  return r;
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string all;
  for (const auto& w : words) all += (all.empty() ? "" : between) + w;
  return all;
}

void print_assumptions(const study& s, const std::string& network_file) {
  const auto buckets = buckets_for(s);
  std::size_t elements = 0;
  for (const bucket& b : buckets) elements += b.elements;
  std::printf("ResNet-50: %zu gradients of %zu bytes on the wire, in %zu buckets of at most %g MiB in memory.\n",
              elements, s.wire_bytes, buckets.size(), s.bucket_mib);
  std::printf("Assumptions (not fitted):\n");
  std::printf(
      "  %.1f images per second of a GPU without communication; by default a quarter of the figure published for 4 "
      "GPUs\n",
      s.rate);
  std::printf(
      "  %d images per GPU and step: %.1f ms forward, %.1f ms backward (%.0f %%), divided among the layers by their "
      "multiplications\n",
      s.batch, 1e3 * s.batch / s.rate * (1 - s.backward_share), 1e3 * s.batch / s.rate * s.backward_share,
      100 * s.backward_share);
  std::printf(
      "  overlap %g (1: an exchange starts when its gradients are ready, and slows down nothing; 0: after the backward "
      "pass)\n",
      s.overlap);
  std::printf(
      "  one exchange at a time; reading images and the optimizer are included in the images per second; all GPUs are "
      "equally fast\n");
  std::printf("  the network described in %s, which gives the source of each number\n", network_file.c_str());
  std::printf("Algorithm of each bucket: %s.\n\n",
              s.algorithm.empty() ? "the fastest by the simulation" : s.algorithm.c_str());
}

/// If several figures were published for a number of GPUs, each has a line.
void print_row(const row& r) {
  std::printf("%6d %9.0f %9.2f %7.2f %13.1f %11s  ", r.gpus, r.rate, 1e3 * r.seconds, 100 * r.communication,
              100 * r.efficiency, "-");
  const auto algorithms = joined(r.algorithms, ", ");
  int lines = 0;
  for (const published& p : figures) {
    if (p.gpus != r.gpus) continue;
    std::printf("%*s%10.0f %10.3f  %-18s %s\n", lines == 0 ? 0 : 62, "", p.rate, r.rate / p.rate, p.remark,
                lines == 0 ? algorithms.c_str() : "");
    ++lines;
  }
  if (lines == 0) std::printf("%10s %10s  %-18s %s\n", "-", "-", "", algorithms.empty() ? "-" : algorithms.c_str());
}

}  // namespace

std::vector<row> predict(const study& s, const kolo::simulate::network& n) {
  const auto buckets = buckets_for(s);
  std::vector<row> rows;
  for (const int gpus : s.gpus) rows.push_back(predict_row(s, buckets, gpus, n));
  return rows;
}

void print(const study& s, const std::vector<row>& rows, const std::string& network_file) {
  print_assumptions(s, network_file);
  std::printf("%6s %9s %9s %7s %13s %11s  %10s %10s  %-18s %s\n", "ranks", "img/s", "step ms", "comm %", "efficiency %",
              "start-up s", "published", "pred./publ", "note", "algorithms");
  for (const row& r : rows) print_row(r);
  std::printf("\nEfficiency: relative to %.1f images per second and GPU. That of the published figures:", s.rate);
  for (const published& p : figures)
    std::printf("%s %.1f %% on %d", &p == figures ? "" : ",", 100 * p.rate / (p.gpus * s.rate), p.gpus);
  std::printf(".\nThe row of 4 GPUs is no prediction: the images per second are derived from its published figure.\n");
}

void write_csv(const std::vector<row>& rows, const std::string& path) {
  std::ofstream out{path};
  out << "gpus,images_per_second,step_seconds,communication_percent,efficiency_percent,published,published_later,"
         "algorithms\n";
  for (const row& r : rows) {
    std::vector<std::string> known;
    for (const published& p : figures)
      if (p.gpus == r.gpus) known.push_back(std::to_string(static_cast<int>(p.rate)));
    known.resize(2);
    out << r.gpus << ',' << r.rate << ',' << r.seconds << ',' << 100 * r.communication << ',' << 100 * r.efficiency
        << ',' << known[0] << ',' << known[1] << ",\"" << joined(r.algorithms, "; ") << "\"\n";
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace scaling

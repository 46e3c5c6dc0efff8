// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Simulates all algorithms for all sizes, and finds the sizes at which the fastest one changes.
#include "which.hpp"

#include "predict.hpp"

#include <cstdio>

namespace scaling {
namespace {

std::string readable(std::size_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  for (; bytes >= 1024; bytes /= 1024) ++unit;
  return std::to_string(bytes) + ' ' + units[unit];
}

std::string readable(double seconds) {
  char text[32];
  if (seconds < 1e-3) std::snprintf(text, sizeof text, "%.2f us", seconds * 1e6);
  else if (seconds < 1) std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  else std::snprintf(text, sizeof text, "%.2f s", seconds);
  return text;
}

}  // namespace

std::vector<size_range> ranges(kolo::kind k, int ranks, const kolo::simulate::network& n) {
  std::vector<size_range> all;
  seconds_before before;
  for (std::size_t bytes = 4; bytes <= std::size_t{1} << 30; bytes *= 2) {
    const auto best = fastest(k, ranks, bytes, n, {}, &before);
    const size_range::end here{bytes, best.seconds, bound(k, ranks, bytes, n)};
    if (all.empty() || all.back().algorithm != best.algorithm) all.push_back({best.algorithm, here, here});
    else all.back().last = here;
  }
  return all;
}

void print_which(int ranks, const kolo::simulate::network& n, const std::string& network_file) {
  std::printf(
      "The fastest algorithm of the catalogue on %d ranks of the network described in %s, for sizes that are powers of "
      "two.\n",
      ranks, network_file.c_str());
  std::printf(
      "Sizes are those of the vector; in an allgather, of all parts together. Bound: latency of one message, and the "
      "bytes that must pass the ports.\n");
  for (const auto k : {kolo::kind::allreduce, kolo::kind::broadcast, kolo::kind::allgather}) {
    std::printf("\n%s\n%9s %9s  %-40s %11s %11s %11s %11s\n", kolo::name(k), "size from", "to", "fastest", "time from",
                "to", "bound from", "to");
    for (const size_range& r : ranges(k, ranks, n))
      std::printf("%9s %9s  %-40s %11s %11s %11s %11s\n", readable(r.first.bytes).c_str(),
                  readable(r.last.bytes).c_str(), r.algorithm.c_str(), readable(r.first.seconds).c_str(),
                  readable(r.last.seconds).c_str(), readable(r.first.bound).c_str(), readable(r.last.bound).c_str());
  }
}

}  // namespace scaling

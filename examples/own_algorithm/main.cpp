// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Uses the twenty lines of both_ways.hpp: proves the algorithm, draws it, simulates it on 4,096 ranks, and runs it.
#include "both_ways.hpp"

#include <kolo/kolo.hpp>
#include <kolo/schedule/cost.hpp>
#include <kolo/schedule/draw.hpp>
#include <kolo/simulate.hpp>

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace {

void expect(bool holds, const char* sentence) {
  if (!holds) throw std::runtime_error(std::string{"check failed: "} + sentence);
}

void prove() {
  const kolo::verdict verdict = kolo::verify(both_ways{}, 257);
  expect(verdict, "both_ways is an allreduce of 257 ranks");
  std::printf("%s\n", verdict.message().c_str());
}

/// Writes the picture to `file`, if not null.
void draw(const char* file) {
  const auto picture = kolo::draw(both_ways{}, 5, "both_ways");
  expect(picture.find("proven") != std::string::npos, "the picture says that it is proven");
  if (!file) return void(std::printf("drawn: %zu bytes of SVG; pass a file name to save it\n", picture.size()));
  std::ofstream out{file};
  out << picture;
  out.close();
  expect(bool(out), "the picture can be written");
  std::printf("drawn: %s\n", file);
}

/// Simulates the same functions; their cost: the bytes of a ring, half of them to each neighbour.
void simulate() {
  const std::size_t bytes = 100 << 20;
  const int ranks = 4096;
  const double seconds = kolo::simulate::run(both_ways{}, ranks, bytes, {});
  const auto cost = kolo::cost_of(both_ways{}, 0, ranks, bytes),
             ring = kolo::cost_of(kolo::ring::allreduce{}, 0, ranks, bytes);
  expect(seconds > 0, "it takes time");
  expect(cost.rounds == ring.rounds && cost.messages == 2 * ring.messages && cost.sent == ring.sent,
         "the bytes of a ring, to two neighbours");
  std::printf("simulated: %d ranks sum 100 MiB in %.1f ms; each sends %zu bytes in %zu messages\n", ranks,
              1000 * seconds, cost.sent, cost.messages);
}

int run() {
  return kolo::shm::launch(4, [](auto& comm) {
    std::vector<float> x(100'000, float(comm.rank()));
    kolo::allreduce(comm, x, kolo::sum, both_ways{});
    for (const float value : x) expect(value == 0 + 1 + 2 + 3, "the sum over four ranks is 0 + 1 + 2 + 3");
    if (comm.rank() == 0) std::printf("run: allreduce of 100,000 floats on four processes\n");
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // forked processes must not inherit buffered output
  prove();
  draw(argc > 1 ? argv[1] : nullptr);
  simulate();
  return run();
}

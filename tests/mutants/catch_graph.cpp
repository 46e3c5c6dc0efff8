// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in graphs of links: times, flow bounds, synthesis, and the readers of graphs.
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/synthesize.hpp>
#include <kolo/simulate/read_graph.hpp>

#include <cmath>

#include "support/expect.hpp"

namespace {

using namespace kolo;
using simulate::graph;
using testing::expect, testing::good;

bool near(double a, double b) { return std::abs(a - b) < 1e-9 * b; }

constexpr simulate::link wire{.latency = 1, .overhead = 0, .gap = 0, .seconds_per_byte = 1};

void timing() {
  graph line{3};
  line.link(0, 1, wire).link(1, 2, wire);
  expect(near(simulate::run(one_shot::broadcast{}, 3, 100, line), 202),
         "messages wait for a link, and pass through ranks");
  line.link(0, 1, {.latency = 1, .overhead = 5, .gap = 10, .seconds_per_byte = 3});
  expect(near(simulate::run(one_shot::broadcast{}, 3, 100, line), 617),
         "overhead, gap, and the slowest link of a path");
  expect(near(simulate::run(one_shot::broadcast{}, 3, 100, graph::star(3, wire)), 202), "a switch forwards");
}

void bound() {
  expect(near(cut_bound(kind::allgather, graph::ring(8, wire), 800), 350), "two links enter a rank");
  const auto nodes = graph::two_level(2, 3, {.latency = 0, .overhead = 0, .gap = 0, .seconds_per_byte = 0.01}, wire);
  expect(near(cut_bound(kind::allgather, nodes, 600), 100), "three links enter a node");
  expect(near(cut_bound(kind::broadcast, nodes, 600), 200), "three links leave the root's node, and one is the root's");
  graph slow = graph::star(3, wire);
  slow.link_one_way(1, 3, {.latency = 1, .overhead = 0, .gap = 0, .seconds_per_byte = 4});
  expect(near(cut_bound(kind::reduce_scatter, slow, 300), 800) && near(cut_bound(kind::allgather, slow, 300), 400),
         "a reduce_scatter is a reversed allgather");
  expect(near(cut_bound(kind::allgather, graph::ring(9, wire), 1), 4), "the latency to the farthest rank");
}

void synthesis() {
  graph torus = graph::torus({2, 4}, {.latency = 20, .overhead = 0, .gap = 0, .seconds_per_byte = 1});
  torus.remove(0, 1);
  const std::pair<kind, double> ratios[] = {{kind::allreduce, 1.65},
                                            {kind::reduce_scatter, 1.15},
                                            {kind::allgather, 1.1},
                                            {kind::broadcast, 1.35},
                                            {kind::reduce, 1.55}};
  for (const auto& [k, most] : ratios) {
    const auto mine = synthesize(k, torus, 4096);
    expect(bool(verify(mine, 8)), name(k));
    expect(simulate::run(mine, 8, 4096, torus) < most * cut_bound(k, torus, 4096), "far from the bound");
  }
  const auto nodes = graph::two_level(3, 3, {.latency = 3, .overhead = 0, .gap = 0, .seconds_per_byte = 0.02},
                                      {.latency = 3, .overhead = 0, .gap = 0, .seconds_per_byte = 1});
  const auto mine = synthesize(kind::allgather, nodes, 9000);
  expect(simulate::run(mine, 9, 9000, nodes) < 1.29 * cut_bound(kind::allgather, nodes, 9000),
         "a block enters a node more than once");
  graph full{6};
  for (int r = 1; r < 6; ++r) full.link(0, r, wire);
  expect(bool(verify(synthesize(kind::broadcast, full, 64), 6)),
         "a root with five links, which may send four messages per round");
  const auto refuses = [](const schedule_table& t) {
    try {
      (void)synthesized{t};
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  expect(refuses({kind::allgather, 2, 2, 1, 1, 0, {{0, 0, 1, 1, 2}}}),
         "a table that sends a missing block was accepted");
  expect(!refuses({kind::allgather, 2, 2, 1, 1, 0, {{0, 0, 1, 1, 1}}}), "a right table was refused");
}

void reading() {
  const auto hosts = simulate::graph_of_hosts("a slots=2\nb:3 # two\na", wire, wire);
  expect(hosts.ranks() == 6 && hosts.vertices() == 9, "ranks of two hosts");
  const auto gpus = simulate::graph_of_nvidia_smi("GPU0 GPU1 GPU2\nGPU0 X PHB SYS\nGPU1 PHB X NV2\nGPU2 SYS NV2 X\n");
  expect(gpus.vertices() == 3 + 3 && gpus.edges().size() == 2 * (3 + 2 + 1), "two PCIe switches and NVLink");
  const auto box =
      simulate::graph_of_nvidia_smi("GPU0 GPU1 GPU2\nGPU0 X NV12 NV12\nGPU1 NV12 X NV12\nGPU2 NV12 NV12 X\n");
  expect(box.vertices() == 4 && box.edges().size() == 6, "an NVSwitch");
}

}  // namespace

int main() {
  timing();
  bound();
  synthesis();
  reading();
  return good ? 0 : 1;
}

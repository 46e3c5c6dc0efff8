// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Synthesises a schedule for a graph of links; prints its predicted time next to the catalogue's and the bound; writes its picture and files.
#include <kolo/adapt/schedule_export.hpp>
#include <kolo/adapt/schedule_json.hpp>
#include <kolo/schedule/catalogue.hpp>
#include <kolo/schedule/draw.hpp>
#include <kolo/schedule/synthesize.hpp>
#include <kolo/simulate/read_graph.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using kolo::simulate::graph;
using kolo::simulate::link;

struct wishes {
  std::string collective = "allreduce", graph{}, hosts{}, nvidia_smi{}, schedule{};
  bool this_host = false;
  std::size_t kib = 64 * 1024;
  int ranks_per_node = 0, root = 0;
  std::string save{}, source{}, mscclpp{}, chakra{}, picture{}, graph_out{};
};

struct named_graph {
  std::string name;
  graph links;
  int ranks_per_node;  ///< for two_level; 0: not compared with two_level
};

constexpr link nvlink{.latency = 1e-6, .overhead = 0, .gap = 0, .seconds_per_byte = 1 / 450e9};
constexpr link pcie{.latency = 2e-6, .overhead = 0, .gap = 0, .seconds_per_byte = 1 / 55e9};
constexpr link fast_card{.latency = 3e-6, .overhead = 0, .gap = 0, .seconds_per_byte = 1 / 50e9};
constexpr link slow_card{.latency = 3e-6, .overhead = 0, .gap = 0, .seconds_per_byte = 1 / 12.5e9};
constexpr link wire{.latency = 1e-6, .overhead = 0, .gap = 0, .seconds_per_byte = 1 / 10e9};
constexpr link slow_wire{.latency = 1e-6, .overhead = 0, .gap = 0, .seconds_per_byte = 1 / 1e9};

std::vector<named_graph> built_in() {
  graph torus = graph::torus({4, 4}, wire), ring = graph::ring(16, wire), cube = graph{8, 0};
  torus.remove(0, 1).remove(1, 0);
  ring.link(2, 3, slow_wire);
  graph nodes = graph::two_level(2, 4, nvlink, fast_card);
  for (int r = 4; r < 8; ++r) nodes.link(r, 8, slow_card);
  // DGX-1's hybrid cube mesh: two fully connected groups of four GPUs, joined rank by rank, with one or two NVLinks per pair.
  const auto wide = [](int n) { return link{1e-6, 0, 0, 1 / (n * 25e9)}; };
  for (int four = 0; four < 8; four += 4)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < i; ++j) cube.link(four + i, four + j, wide(i - j == 3 || (i == 2 && j == 1) ? 2 : 1));
  for (int i = 0; i < 4; ++i) cube.link(i, i + 4, wide(i % 3 == 0 ? 2 : 1));
  return {{"4 x 4 torus with a broken link", torus, 0},
          {"ring with one link at a tenth of the bandwidth", ring, 0},
          {"two nodes of 4 GPUs, network cards of 50 and 12.5 GB/s", nodes, 4},
          {"one node of 8 GPUs, NVLink without a switch", cube, 4}};
}

std::string text_of(const std::string& path) {
  std::ifstream file{path};
  if (!file) throw std::invalid_argument(path + " cannot be read");
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}
void write(const std::string& path, const std::string& text) {
  std::ofstream file{path, std::ios::binary};
  file << text;
  file.close();
  if (!file) throw std::invalid_argument("cannot write " + path);
  std::cout << "  written: " << path << '\n';
}

std::vector<named_graph> graphs_of(const wishes& w) {
  std::vector<named_graph> all;
  if (!w.graph.empty()) all.push_back({w.graph, kolo::simulate::read_graph(w.graph), w.ranks_per_node});
  if (!w.hosts.empty())
    all.push_back({w.hosts, kolo::simulate::graph_of_hosts(text_of(w.hosts), pcie, fast_card), w.ranks_per_node});
  if (!w.nvidia_smi.empty())
    all.push_back({w.nvidia_smi, kolo::simulate::graph_of_nvidia_smi(text_of(w.nvidia_smi)), w.ranks_per_node});
  if (w.this_host)
    all.push_back({"this host", kolo::simulate::graph_of_this_host({1e-7, 0, 0, 1 / 20e9}, {2e-7, 0, 0, 1 / 10e9}),
                   w.ranks_per_node});
  return all.empty() ? built_in() : all;
}

/// Calls see(name, schedule) for the catalogue's schedules of this kind that support the graph's number of ranks.
template <class F>
void for_each_known(kolo::kind k, const named_graph& on, F see) {
  const auto consider = [&](const std::string& name, const auto& family) {
    kolo::for_each_schedule_of(family, [&](const auto& schedule) {
      if (schedule.collective == k && supports(schedule, on.links.ranks())) see(name, schedule);
    });
  };
  kolo::for_each_family([&](const std::string& name, const auto& family) {
    if (name != "two_level") consider(name, family);
  });
  if (on.ranks_per_node > 0)
    consider("two_level", kolo::two_level<kolo::ring, kolo::ring>{.nodes = {.ranks_per_node = on.ranks_per_node}});
}

void row(const std::string& what, double seconds, double bound) {
  std::printf("  %-36s %9.3f ms %7.2f\n", what.c_str(), 1e3 * seconds, seconds / bound);
}

void compare(const named_graph& on, kolo::kind k, const kolo::synthesized& mine, std::size_t bytes) {
  const int p = on.links.ranks();
  const double bound = kolo::cut_bound(k, on.links, bytes, mine.table().root);
  std::printf("\n%s, %d ranks, %s of %.1f MiB\n  %-36s %12s %7s\n", on.name.c_str(), p, kolo::name(k),
              static_cast<double>(bytes) / (1 << 20), "", "predicted", "/ bound");
  row("lower bound by flows", bound, bound);
  row("synthesised, proven", kolo::simulate::run(mine, p, bytes, on.links), bound);
  std::string best;
  double least = 0;
  for_each_known(k, on, [&](const std::string& name, const auto& schedule) {
    const double seconds = kolo::simulate::run(schedule, p, bytes, on.links);
    if (best.empty() || seconds < least) best = name, least = seconds;
    if (name == "ring" || name == "two_level") row(name, seconds, bound);
  });
  if (!best.empty()) row("best known: " + best, least, bound);
}

void write_files(const wishes& w, const named_graph& on, const kolo::synthesized& mine, std::size_t bytes) {
  if (!w.graph_out.empty()) write(w.graph_out, nlohmann::json(on.links).dump(1));
  if (!w.save.empty()) write(w.save, nlohmann::json(mine).dump());
  if (!w.source.empty()) write(w.source, kolo::as_source(mine, "synthesized_schedule"));
  if (!w.mscclpp.empty()) write(w.mscclpp, kolo::mscclpp_plan(mine, "kolo_synthesized").dump(1));
  for (int r = 0; !w.chakra.empty() && r < on.links.ranks(); ++r)
    write(w.chakra + '.' + std::to_string(r) + ".et", kolo::chakra_trace(mine, r, bytes));
  if (!w.picture.empty()) write(w.picture, kolo::draw(mine, on.links.ranks(), "synthesised: " + on.name));
}

void add_options(CLI::App& app, wishes& w) {
  const std::vector<std::string> kinds{"allreduce", "reduce_scatter", "allgather", "broadcast", "reduce"};
  app.add_option("--collective", w.collective, "Collective to synthesise")
      ->check(CLI::IsMember(kinds))
      ->capture_default_str();
  app.add_option("--kib", w.kib, "Size of the vector in KiB; in an allgather, of all parts together")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--root", w.root, "Root of a broadcast or a reduce")->capture_default_str();
  app.add_option("--ranks-per-node", w.ranks_per_node,
                 "Also compare with two_level, with nodes of this many ranks; 0: do not");
  app.add_option("--graph", w.graph, "Use the graph of links in this JSON file (kolo/adapt/schedule_json.hpp)");
  app.add_option("--hosts", w.hosts, "Use the hosts of this MPI hostfile");
  app.add_option("--nvidia-smi", w.nvidia_smi, "Use the GPUs of this file, the output of `nvidia-smi topo -m`");
  app.add_flag("--this-host", w.this_host, "Use the processors of this host and the caches that they share");
  app.add_option("--read", w.schedule, "Read a schedule that --save has written, instead of synthesising one");
  app.add_option("--save", w.save, "Write the schedule as JSON");
  app.add_option("--save-graph", w.graph_out, "Write the graph as JSON");
  app.add_option("--source", w.source, "Write the schedule as a C++ header");
  app.add_option("--mscclpp", w.mscclpp, "Write the schedule as an execution plan for MSCCL++");
  app.add_option("--chakra", w.chakra, "Write PREFIX.<rank>.et, Chakra traces for ASTRA-sim")->type_name("PREFIX");
  app.add_option("--picture", w.picture, "Write the schedule as SVG");
}

kolo::kind kind_of(const std::string& wanted) {
  for (const kolo::kind k :
       {kolo::kind::reduce_scatter, kolo::kind::allgather, kolo::kind::broadcast, kolo::kind::reduce})
    if (wanted == kolo::name(k)) return k;
  return kolo::kind::allreduce;
}

}  // namespace

int main(int argc, char** argv) {
  wishes w;
  CLI::App app{"Synthesises a schedule for a graph of links; by default for each of four built-in graphs."};
  add_options(app, w);
  CLI11_PARSE(app, argc, argv);
  try {
    const std::size_t bytes = w.kib * 1024;
    const kolo::kind k = kind_of(w.collective);
    for (const named_graph& on : graphs_of(w)) {
      const kolo::synthesized mine =
          w.schedule.empty() ? kolo::synthesize(k, on.links, bytes, w.root) : kolo::read_schedule(w.schedule);
      compare(on, mine.table().collective, mine, bytes);
      write_files(w, on, mine, bytes);
    }
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "synthesize: " << e.what() << '\n';
    return 1;
  }
}

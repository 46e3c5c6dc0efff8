// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Networks of links: their clock, the bound by flows compared with all cuts of small graphs, and schedules that are synthesised for them.
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/catalogue.hpp>
#include <kolo/schedule/cost.hpp>
#include <kolo/schedule/draw.hpp>
#include <kolo/schedule/synthesize.hpp>
#include <kolo/simulate/graph.hpp>
#include <kolo/simulate/read_graph.hpp>
#include <kolo/simulate/run.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/sanitized.hpp"
#include "support/scratch.hpp"

using testing::contains, testing::words_of;

namespace {

using kolo::kind;
using kolo::simulate::graph;
using kolo::simulate::link;

constexpr link wire{.latency = 1e-6, .overhead = 0, .seconds_per_byte = 1e-10};
constexpr link inside{.latency = 1e-6, .overhead = 0, .seconds_per_byte = 1e-11};
constexpr std::size_t mebibyte = 1 << 20;
constexpr kind kinds[] = {kind::allreduce, kind::reduce_scatter, kind::allgather, kind::broadcast, kind::reduce};

graph broken_torus() {
  auto g = graph::torus({4, 4}, wire);
  g.remove(0, 1);
  g.link(2, 3, {.latency = 1e-6, .seconds_per_byte = 1e-9});
  return g;
}

/// The least cut over all sets of ranks and switches: what leaves a set, per rank in it. With a `root`, over the sets that contain it, and not per rank.
double least_cut(const graph& g, int root) {
  double least = HUGE_VAL;
  const int n = g.vertices(), ranks = (1 << g.ranks()) - 1;
  for (int set = 1; set < 1 << n; ++set) {
    if ((set & ranks) == 0 || (set & ranks) == ranks || (root >= 0 && (set >> root & 1) == 0)) continue;
    double out = 0;
    for (const auto& e : g.edges())
      if ((set >> e.from & 1) != 0 && (set >> e.to & 1) == 0) out += 1 / e.times.seconds_per_byte;
    least = std::min(least, root >= 0 ? out : out / __builtin_popcount(static_cast<unsigned>(set & ranks)));
  }
  return least;
}

}  // namespace

TEST_CASE("a schedule without contention takes as long on a graph as on a network") {
  const kolo::simulate::network even{
      .latency = 1e-6, .overhead = 0, .seconds_per_byte = 1e-10, .seconds_per_byte_reduced = 0};
  for (const int p : {2, 3, 5, 8})
    CHECK(kolo::simulate::run(kolo::ring::allreduce{}, p, mebibyte, graph::ring(p, wire)) ==
          Approx(kolo::simulate::run(kolo::ring::allreduce{}, p, mebibyte, even)));
}

TEST_CASE("on a graph messages pass through ranks and switches, and wait for a link that is occupied") {
  graph g{3};  // 0 - 1 - 2
  g.link(0, 1, wire).link(1, 2, wire);
  const double once = 1e-10 * mebibyte;
  CHECK(kolo::simulate::run(kolo::binomial::broadcast{}, 3, mebibyte, g) == Approx(2 * once + 1e-6));
  // Both messages leave rank 0 over its one link, and one is forwarded while the other enters.
  CHECK(kolo::simulate::run(kolo::one_shot::broadcast{}, 3, mebibyte, g) == Approx(2 * once + 2e-6));
  CHECK(kolo::simulate::run(kolo::one_shot::broadcast{}, 3, mebibyte, graph::star(3, wire)) == Approx(2 * once + 2e-6));
  g.link(1, 2, {.latency = 1e-6, .overhead = 0, .gap = 5e-6, .seconds_per_byte = 3e-10});
  CHECK(kolo::simulate::run(kolo::ring::allgather{}, 3, 3 * mebibyte, g) == Approx(2 * 3 * once + 7e-6).epsilon(1e-3));
  g.seconds_per_byte_reduced = 1e-9;
  CHECK(kolo::simulate::run(kolo::ring::reduce_scatter{}, 3, 3 * mebibyte, g) > 2 * 1e-9 * mebibyte);
  CHECK(contains(words_of<std::exception>([&] { (void)kolo::simulate::run(kolo::ring::allgather{}, 4, 1, g); }),
                 "4 ranks on a graph of 3"));
  g.remove(1, 2);
  CHECK(contains(words_of<std::exception>([&] { (void)kolo::simulate::run(kolo::ring::allgather{}, 3, 3, g); }),
                 "there is no path from rank 0 to rank 2"));
  CHECK(contains(words_of<std::exception>([&] { g.link(1, 1, wire); }), "a link joins two"));
}

TEST_CASE("the bound by flows is that of the narrowest cut") {
  std::mt19937 random{1};
  int wrong = 0;
  for (int k = 0; k < (testing::is_sanitized ? 50 : 200); ++k) {
    const int ranks = 2 + static_cast<int>(random() % 5), switches = static_cast<int>(random() % 3);
    graph g{ranks, switches};
    for (int a = 0; a < g.vertices(); ++a)
      for (int b = 0; b < g.vertices(); ++b)
        if (a != b && random() % 2 == 0)
          g.link_one_way(a, b, {.latency = 0, .seconds_per_byte = 1e-10 * (1 + static_cast<double>(random() % 4))});
    const double gathered = least_cut(g, -1), spread = least_cut(g, 0);
    const auto differ = [](double x, double y) { return std::abs(x - y) > 1e-6 * std::max(x, y); };
    if (gathered > 0) wrong += differ(kolo::cut_bound(kind::allgather, g, mebibyte), 1.0 * mebibyte / ranks / gathered);
    else wrong += !std::isinf(kolo::cut_bound(kind::allgather, g, mebibyte));
    if (spread > 0) wrong += differ(kolo::cut_bound(kind::broadcast, g, mebibyte), 1.0 * mebibyte / spread);
    wrong += kolo::cut_bound(kind::reduce_scatter, g, mebibyte) !=
             kolo::cut_bound(kind::allgather, g.transposed(), mebibyte);
  }
  CHECK(wrong == 0);
  CHECK(kolo::cut_bound(kind::allreduce, graph::ring(4, wire), mebibyte) == Approx(1.5 * mebibyte * 1e-10 / 2));
  CHECK(kolo::cut_bound(kind::allgather, graph::ring(8, wire), 8) == Approx(4e-6));
  graph around_0{3};
  around_0.link(0, 1, wire).link(0, 2, wire);
  for (const kind k : {kind::allreduce, kind::allgather, kind::reduce_scatter})
    CHECK(kolo::cut_bound(k, around_0, 8) == Approx(2e-6));  // from 1 to 2
  for (const kind k : {kind::broadcast, kind::reduce}) CHECK(kolo::cut_bound(k, around_0, 8) == Approx(1e-6));
  CHECK(contains(words_of<std::exception>([] { (void)kolo::cut_bound(kind::scan, graph::ring(4, wire), 8); }),
                 "cut_bound"));
}

TEST_CASE("synthesised schedules are proven, not faster than the bound, and near it on regular graphs") {
  const auto in_percent = [](kind k, const graph& g) {
    const auto s = kolo::synthesize(k, g, 64 * mebibyte);
    CHECK(kolo::verify(s, g.ranks()));
    return 100 * kolo::simulate::run(s, g.ranks(), 64 * mebibyte, g) / kolo::cut_bound(k, g, 64 * mebibyte);
  };
  for (const graph& g : {graph::ring(2, wire), graph::ring(5, wire), graph::star(3, wire), broken_torus()})
    for (const kind k : kinds) CHECK(in_percent(k, g) >= 100 - 1e-6);
  for (const graph& g :
       {graph::ring(16, wire), graph::torus({4, 4}, wire), graph::hypercube(4, wire), graph::star(8, wire),
        graph::two_level(4, 4, inside, wire), graph::two_level(2, 3, inside, wire)})
    CHECK(in_percent(kind::allgather, g) <= 110);
}

TEST_CASE("with one slow link a synthesised schedule is faster than all others") {
  auto g = graph::ring(16, wire);
  g.link(2, 3, {.latency = 1e-6, .overhead = 0, .seconds_per_byte = 1e-9});
  const double mine = kolo::simulate::run(kolo::synthesize(kind::allreduce, g, 4 * mebibyte), 16, 4 * mebibyte, g);
  int known = 0;
  kolo::for_each_family([&](const char* name, const auto& family) {
    kolo::for_each_schedule_of(family, [&](const auto& s) {
      if (s.collective != kind::allreduce || !kolo::supports(s, 16)) return;
      INFO(name);
      CHECK(mine < kolo::simulate::run(s, 16, 4 * mebibyte, g));
      ++known;
    });
  });
  CHECK(known > 8);
}

TEST_CASE("ranks run synthesised schedules") {
  const auto g = broken_torus();
  const auto mine = kolo::synthesize(kind::allreduce, g, mebibyte);
  const auto from_3 = kolo::synthesize(kind::broadcast, g, mebibyte, 3);
  std::atomic<int> wrong = 0;
  kolo::threads::run(16, [&](auto& comm) {
    std::vector<int> x(1001);
    std::iota(x.begin(), x.end(), comm.rank());
    kolo::allreduce(comm, x, kolo::sum, mine);
    for (int i = 0; i < 1001; ++i) wrong += x[static_cast<std::size_t>(i)] != 16 * i + 120;
    std::fill(x.begin(), x.end(), comm.rank());
    kolo::broadcast(comm, x, 3, from_3);
    wrong += std::count(x.begin(), x.end(), 3) != 1001;
  });
  CHECK(wrong == 0);
  CHECK(contains(kolo::draw(mine, 16), "<svg"));
  const auto from_0 = [](const auto& m) { return m.from == 0; };
  CHECK(std::ssize(mine.table().messages) > 0);
  CHECK(static_cast<long>(kolo::cost_of(mine, 0, 16, mebibyte).messages) ==
        std::count_if(mine.table().messages.begin(), mine.table().messages.end(), from_0));
  const auto on_two = [&] {
    kolo::threads::run(2, [&](auto& comm) {
      std::vector<int> x(4);
      kolo::allreduce(comm, x, kolo::sum, mine);
    });
  };
  CHECK(contains(words_of<std::exception>(on_two), "support"));
  const auto from_another = [&] {
    kolo::threads::run(16, [&](auto& comm) {
      std::vector<int> x(4);
      kolo::broadcast(comm, x, 5, from_3);
    });
  };
  CHECK(contains(words_of<std::exception>(from_another), "the schedule is made for root 3, and the call names 5"));
}

TEST_CASE("an invalid synthesis is refused with a reason") {
  graph g{3};
  g.link_one_way(0, 1, wire).link(1, 2, wire);
  CHECK(contains(words_of<std::exception>([&] { (void)kolo::synthesize(kind::allgather, g, 8); }),
                 "not every rank reaches every other"));
  CHECK(kolo::verify(kolo::synthesize(kind::broadcast, g, 8), 3));
  for (const kind k : kinds)
    CHECK(contains(words_of<std::exception>([k] { (void)kolo::synthesize(k, graph{2}, 1024); }),
                   "not every rank reaches every other"));
  for (const kind k : kinds)
    CHECK(
        contains(words_of<std::exception>([k] { (void)kolo::synthesize(k, graph{1}, 1024); }), "one rank has no peer"));
  CHECK(contains(words_of<std::exception>([&] { (void)kolo::synthesize(kind::alltoall, g, 8); }),
                 "kolo: synthesize: it makes an allreduce"));
  CHECK(contains(words_of<std::exception>([&] { (void)kolo::synthesize(kind::broadcast, g, 8, 3); }),
                 "the root is no rank"));
  const auto with = [](kolo::scheduled_message m) {
    return words_of<std::exception>([&] { (void)kolo::synthesized{{kind::allgather, 2, 2, 1, 1, 0, {m}}}; });
  };
  CHECK(with({0, 0, 1, 0, 1}) == "");
  for (const kolo::scheduled_message& m : {kolo::scheduled_message{1, 0, 1, 0, 1},
                                           {0, 0, 2, 0, 1},
                                           {0, 0, 0, 0, 1},
                                           {0, 0, 1, 2, 1},
                                           {0, 0, 1, 0, 0},
                                           {0, 0, 1, 1, 2},
                                           {-1, 0, 1, 0, 1}})
    CHECK(contains(with(m), "a message of a round, rank or block that is not there"));
}

TEST_CASE("a graph refuses sizes that are too large, and invalid times") {
  for (const double time : {-1.0, HUGE_VAL, std::nan("")}) {
    auto g = graph::ring(2, wire);
    CHECK(contains(words_of<std::exception>([&] { g.link(0, 1, {.latency = time}); }), "times of a link"));
    g.seconds_per_byte_reduced = time;
    CHECK(contains(words_of<std::exception>([&] { (void)run(kolo::ring::allreduce{}, 2, 1000, g); }),
                   "seconds_per_byte_reduced"));
  }
  const int many = std::numeric_limits<int>::max();
  CHECK(contains(words_of<std::exception>([&] { (void)graph{many, many}; }), "2^29"));
  CHECK(contains(words_of<std::exception>([&] { (void)graph::star(many, wire); }), "2^29"));
  CHECK(contains(words_of<std::exception>([] { (void)graph::torus({65537, 65537}, wire); }), "2^29"));
  CHECK(contains(words_of<std::exception>([&] { (void)graph::two_level(many, 2, wire, wire); }), "2^29"));
  CHECK(contains(words_of<std::exception>([&] { (void)graph::two_level(-2, -2, wire, wire); }), "from 1"));
  CHECK(contains(words_of<std::exception>([] { (void)graph::hypercube(-1, wire); }), "dimensions"));
}

TEST_CASE("a list of hosts, nvidia-smi's matrix and the kernel's files are read as graphs") {
  using namespace kolo::simulate;
  const graph hosts = graph_of_hosts("a slots = 2 max_slots=9 # the first\n\nb:3\na\n", inside, wire);
  CHECK((hosts.ranks() == 6 && hosts.vertices() == 9 && hosts.edges().size() == 24));
  const auto joined = [](const graph& g, int a, int b) {
    for (const auto& e : g.edges())
      if (e.from == a && e.to == b) return e.times.seconds_per_byte;
    return 0.0;
  };
  CHECK((joined(hosts, 5, 7) == 1e-11 && joined(hosts, 4, 8) == 1e-11 && joined(hosts, 5, 6) == 1e-10));
  CHECK(graph_of_hosts("only:4", inside, wire).edges().size() == 8);
  for (const char* wrong : {"a slots=two", "a slots="})
    CHECK(
        contains(words_of<std::exception>([&] { (void)graph_of_hosts(wrong, inside, wire); }), "a list of hosts with"));
  CHECK(contains(words_of<std::exception>([&] { (void)graph_of_hosts("# none", inside, wire); }), "must not be empty"));

  const gpu_links by{};
  const graph box = graph_of_nvidia_smi(
      "\x1b[?1h\x1b=\n\x1b[K\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\x1b(B\x1b[0m\n\x1b[\n"
      "GPU0\t X \tNV2\tPHB\tSYS\t0-7\nGPU1\tNV2\t X \tPIX\tSYS\t0-7\n"
      "GPU2\tPHB\tPIX\t X \tNV1\t0-7\nGPU3\tSYS\tSYS\tNV1\t X \t8-15\n\nLegend:\n  X = Self\n",
      by);
  CHECK((box.ranks() == 4 && box.vertices() == 7));
  CHECK(joined(box, 0, 1) == by.nvlink.seconds_per_byte / 2);
  CHECK(joined(box, 3, 2) == by.nvlink.seconds_per_byte);
  CHECK((joined(box, 0, 5) == by.pcie.seconds_per_byte && joined(box, 2, 5) > 0 && joined(box, 3, 6) > 0));
  CHECK((joined(box, 5, 4) == by.between_sockets.seconds_per_byte && joined(box, 3, 5) == 0));
  const graph four = graph_of_nvidia_smi(
      "  GPU0 GPU1 GPU2 GPU3\nGPU0 X NV4 NV4 NV4\nGPU1 NV4 X NV4 NV4\nGPU2 NV4 NV4 X NV4\nGPU3 NV4 NV4 NV4 X\n");
  CHECK(joined(four, 0, 3) == by.nvlink.seconds_per_byte / 4);
  const graph switched =
      graph_of_nvidia_smi("  GPU0 GPU1 GPU2\nGPU0 X NV18 NV18\nGPU1 NV18 X NV18\nGPU2 NV18 NV18 X\n");
  CHECK((joined(switched, 0, 1) == 0 && joined(switched, 0, 3) == by.nvlink.seconds_per_byte / 18));
  CHECK(contains(words_of<std::exception>([] { (void)graph_of_nvidia_smi("command not found"); }), "not a matrix"));
  for (const std::string links : {"NV", "NVx", "NV4x", "NV99999999999"})
    CHECK(contains(words_of<std::exception>(
                       [&] { (void)graph_of_nvidia_smi(" GPU0 GPU1\nGPU0 X " + links + "\nGPU1 " + links + " X\n"); }),
                   "not a matrix"));

  const testing::scratch_directory scratch;
  const std::filesystem::path sys = scratch / "sys";
  for (const auto& [cpu, cache] : {std::pair{"0", "0-1"}, {"1", "0-1"}, {"4", "4"}}) {
    const auto where = sys / (std::string{"cpu"} + cpu) / "cache/index3";
    std::filesystem::create_directories(where);
    std::ofstream{where / "shared_cpu_list"} << cache << '\n';
  }
  std::ofstream{sys / "online"} << "0-1,4\n";
  const graph host = graph_of_this_host(inside, wire, sys);
  std::filesystem::remove_all(sys);
  CHECK(
      (host.ranks() == 3 && joined(host, 1, 4) == 1e-11 && joined(host, 2, 5) == 1e-11 && joined(host, 5, 3) == 1e-10));
  CHECK(contains(words_of<std::exception>([&] { (void)graph_of_this_host(inside, wire, sys); }), "lists no processor"));
  CHECK(graph_of_this_host(inside, wire).ranks() > 0);
}

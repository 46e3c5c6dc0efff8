// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// routed_communicator: shared memory within a node, MPI between nodes: laws, collectives, bits, split, failures, fork; on one node and on several.
#include "support/count_allocations.hpp"

#include "collectives/every_movement.hpp"
#include "collectives/every_reduction.hpp"
#include "laws/message_laws.hpp"
#include "mpi/world.hpp"
#include "processes/children.hpp"
#include "support/ends.hpp"

#include <unistd.h>

using namespace testing;
using namespace std::chrono_literals;

namespace {

/// Nodes of `ranks` ranks; 0: all ranks share this host.
kolo::mpi::options nodes_of(int ranks) { return {.timeout = 60s, .ranks_per_node = ranks}; }

std::string all_agree(const std::string& said) {
  char first[200] = {};
  said.copy(first, sizeof first - 1);
  MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
  return said == first ? "" : "rank 0 says \"" + std::string{first} + "\", this one \"" + said + '"';
}

/// The laws that break a communicator. All ranks learn of the failure before they destroy it.
void laws_of_failure(mpi_world& world, int node) {
  const auto law = [&](const char* name, auto of) {
    world.run(name, [&](complaints& wrong) {
      kolo::mpi::routed_communicator comm{MPI_COMM_WORLD, nodes_of(node)};
      if (const std::string broken = of(comm.transport()); !broken.empty())
        wrong.say("nodes of " + std::to_string(node) + ": " + broken);
    });
  };
  law("the first failure stays", [](auto& t) {
    const auto said = laws::keeps_the_first_failure(t);
    return said.starts_with("first ") ? all_agree(said) : said;
  });
  law("a failure wakes everybody", laws::failure_wakes_everybody);
  if (world.size() == 1) return;
  law("a deadline passes for all", laws::deadline_passes);
  law("another tag is a mismatch", [](auto& t) {
    if (const auto broken = laws::another_tag_is_a_mismatch(t); !broken.empty()) return broken;
    return laws::end_of_waiting(t, 0).code == kolo::errc::mismatch
               ? ""
               : std::string{"the other ranks did not get the mismatch"};
  });
}

void collectives(mpi_world& world, int node) {
  world.run("laws and collectives", [&](complaints& wrong) {
    kolo::mpi::routed_communicator comm{MPI_COMM_WORLD, nodes_of(node)};
    if (const auto broken = laws::is_constant(comm.transport()); !broken.empty()) wrong.say(broken);
    if (const auto broken = laws::messages_arrive_in_order(comm.transport()); !broken.empty()) wrong.say(broken);
    if (const auto broken = laws::split_orders_by_key_and_rank(comm.transport()); !broken.empty()) wrong.say(broken);
    const auto nodes = kolo::topology_of(comm);
    for (const std::size_t n : {std::size_t{1}, std::size_t{1009}}) {
      try_allreduce(comm, wrong, "two_level allreduce", n, kolo::two_level<>{.nodes = nodes});
      try_allreduce(comm, wrong, "automatic allreduce", n, kolo::automatic{});
      try_allreduce(comm, wrong, "ring allreduce", n, kolo::ring{});
      try_allreduce(comm, wrong, "two_shot allreduce", n, kolo::two_shot{});
      try_reduce_scatter(comm, wrong, "pairwise reduce_scatter", n, kolo::pairwise{});
    }
    every_alltoall(comm, wrong, 101);
    kolo::barrier(comm);
  });
}

template <class A>
void same_bits(mpi_world& world, const char* name, int node, const A& algorithm) {
  world.run(name, [&](complaints& wrong) {
    kolo::mpi::communicator all{MPI_COMM_WORLD, kolo::mpi::options{.timeout = 60s}};
    auto near = kolo::shm::node_communicator(all);
    kolo::mpi::routed_communicator both{MPI_COMM_WORLD, nodes_of(node)};
    for (const std::size_t n : {std::size_t{1000}, std::size_t{200'000}}) {
      std::vector<float> x(n), y;
      for (std::size_t i = 0; i < n; ++i)
        x[i] = 1.0f / static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(world.rank()) * 13) % 101);
      y = x;
      kolo::allreduce(near, x, kolo::sum, algorithm);
      kolo::allreduce(both, y, kolo::sum, algorithm);
      expect_same(wrong, std::to_string(n) + " numbers on nodes of " + std::to_string(node), world.rank(), y, x);
    }
  });
}

void topologies(mpi_world& world) {
  world.run("the topology of the ranks", [&](complaints& wrong) {
    kolo::mpi::communicator groups{MPI_COMM_WORLD, nodes_of(3)};
    wrong.expect(kolo::topology_of(groups).ranks_per_node == std::min(3, world.size()), "groups of three");
    auto turned = groups.split(0, -world.rank());
    const auto t = kolo::topology_of(turned);
    wrong.expect(t.holds(world.size()) && t.size(0, world.size()) == (world.size() % 3 == 0 ? 3 : world.size() % 3),
                 "the smaller node does not come first");
    if (world.size() < 4) return;
    auto mixed = groups.split(0, world.rank() % 3);
    try {
      kolo::topology_of(mixed);
      wrong.say("ranks that are not numbered node by node have a topology");
    } catch (const kolo::error& e) {
      wrong.expect(
          e.code() == kolo::errc::invalid_argument && std::string{e.what()}.find("node by node") != std::string::npos,
          e.what());
    }
    auto routed = kolo::mpi::routed_communicator{MPI_COMM_WORLD, nodes_of(3)}.split(0, world.rank() % 3);
    int x[] = {1 << routed.rank()};
    kolo::allreduce(routed, x, kolo::sum, kolo::ring{});
    wrong.expect(x[0] == (1 << world.size()) - 1 && routed.local_size() == groups.local_size(),
                 "ranks that are not numbered node by node");
  });
}

void neighbours(mpi_world& world) {
  world.run("node_communicator: the ranks of a node", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, nodes_of(3)};
    auto near = kolo::shm::node_communicator(comm);
    wrong.expect(near.rank() == comm.local_rank() && near.size() == comm.local_size(), "not the node's ranks");
    int x[] = {world.rank()}, wanted = 0;
    kolo::allreduce(near, x, kolo::sum);
    for (int r = world.rank() / 3 * 3; r < std::min(world.rank() / 3 * 3 + 3, world.size()); ++r) wanted += r;
    wrong.expect(x[0] == wanted, "the sum of the neighbours");
    if (world.size() < 2) return;
    std::string said;
    try {
      kolo::shm::node_communicator(comm, {.slot_bytes = world.rank() == 1 ? std::size_t{4096} : std::size_t{8192}});
    } catch (const kolo::error& e) {
      said = e.what();
      wrong.expect(e.code() == kolo::errc::mismatch, said);
    }
    wrong.expect(!said.empty() && all_agree(said).empty(),
                 "a failure on one node is not the same on all: " + all_agree(said));
    kolo::barrier(comm);
  });
}

/// No rank has a neighbour: all operations and split go over MPI alone, and a rank leaves.
void all_far(mpi_world& world) {
  world.run("far_only: everything goes over MPI", [&](complaints& wrong) {
    using transport = kolo::mpi::routed_communicator::transport_type;
    kolo::mpi::routed_communicator comm{transport::far_only(kolo::mpi::transport{MPI_COMM_WORLD, nodes_of(0)})};
    const auto& its = comm.transport();
    wrong.expect(!its.is_near() && !its.has_slots() && comm.local_size() == 1 && comm.node_count() == world.size(),
                 "a node has several ranks");
    if (const auto broken = laws::messages_arrive_in_order(comm.transport()); !broken.empty()) wrong.say(broken);
    try_allreduce(comm, wrong, "allreduce over MPI", 1009, kolo::automatic{});
    auto part = comm.split(world.rank() % 2, 0);
    try_allreduce(part, wrong, "allreduce over MPI in a part", 1009, kolo::ring{});
    auto near = transport::near_where_possible(kolo::mpi::transport{MPI_COMM_WORLD, nodes_of(0)}, 10s);
    wrong.expect(near.has_slots() == near.is_near(), "has_slots() and is_near() differ");
    if (world.size() == 1) return;
    const int last = world.size() - 1;
    if (world.rank() == last) return comm.transport().leave("it has better things to do");
    const auto end = laws::end_of_waiting(comm.transport(), last);
    wrong.expect(end.code == kolo::errc::peer_failed, "leave is not reported as peer_failed");
  });
}

void refused(mpi_world& world, int node) {
  world.run("a rank refuses its arguments", [&](complaints& wrong) {
    kolo::mpi::routed_communicator comm{MPI_COMM_WORLD, nodes_of(node)};
    const int last = comm.size() - 1;
    const auto begin = MPI_Wtime();
    std::vector<int> x(10), y(comm.rank() == last ? 9 : 10);
    for (int k = 0; k < 2; ++k) try {
        kolo::allreduce(comm, x, y, kolo::sum, kolo::ring{});
        wrong.say("no error");
      } catch (const kolo::error& e) {
        wrong.expect(e.peer() == last && e.code() == (k == 0 && comm.rank() == last ? kolo::errc::invalid_argument
                                                                                    : kolo::errc::peer_failed),
                     e.what());
      }
    wrong.expect(MPI_Wtime() - begin < 30, "the error came late");
  });
}

template <class Comm>
void forked(mpi_world& world, int node) {
  world.run("a forked copy of a communicator sends nothing, and calls on it are refused", [&](complaints& wrong) {
    Comm comm{MPI_COMM_WORLD, nodes_of(node)};
    if (world.rank() == world.size() - 1) {
      child copies{[&] {
        const auto said = end_of([&] { kolo::barrier(comm); });
        try {
          const auto copy = std::move(comm);
          throw 1;
        } catch (int) {
        }
        return said;
      }};
      wrong.expect(copies.result() == "invalid argument -1", "a call in the child was not refused");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < 2; ++k) try_allreduce(comm, wrong, "allreduce", 1009, kolo::ring{});
  });
}

void memory(mpi_world& world) {
  world.run("a second run allocates nothing", [&](complaints& wrong) {
    kolo::mpi::routed_communicator comm{MPI_COMM_WORLD, kolo::mpi::options{.ranks_per_node = 2, .piece_bytes = 4096}};
    std::vector<int> x(5000, comm.rank());
    const auto both = kolo::topology_of(comm);
    for (int k = 0; k < 3; ++k) {
      const long before = allocations;
      kolo::allreduce(comm, x, kolo::max, kolo::two_level<>{.nodes = both});
      kolo::allreduce(comm, x, kolo::max, kolo::ring{});
      const long n = allocations - before;
      wrong.expect(k < 2 || n == 0, std::to_string(n) + " allocations");
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  mpi_world world;
  if (argc > 1 && std::strcmp(argv[1], "hosts") == 0) {  // run by two_hosts.sh
    world.run("two hosts", [&](complaints& wrong) {
      kolo::mpi::routed_communicator comm{MPI_COMM_WORLD, nodes_of(0)};
      wrong.expect(comm.node_count() == 2 && comm.local_size() * 2 == world.size(), "MPI sees one host");
    });
    collectives(world, 0);
    std::fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    ::_exit(world.status());  // over TCP, MPI_Finalize of MPICH 4.0 sometimes hangs, also without kolo
  }
  const bool is_oversubscribed = world.size() > 4;
  for (const int node : is_oversubscribed ? std::vector{3} : std::vector{0, 1, 2, 3}) {
    collectives(world, node);
    same_bits(world, "two_level: the bits of shared memory", node,
              kolo::two_level<>{.nodes = {.ranks_per_node = node > 0 ? node : 2}});
  }
  topologies(world);
  if (is_oversubscribed) return world.status();
  all_far(world);
  laws_of_failure(world, 2);
  if (world.size() > 1) refused(world, 3);
  same_bits(world, "automatic on one node: the bits of shared memory", 0, kolo::automatic{});
  neighbours(world);
  forked<kolo::mpi::communicator>(world, 0);
  for (const int node : {0, 1, 2}) forked<kolo::mpi::routed_communicator>(world, node);
  memory(world);
  return world.status();
}

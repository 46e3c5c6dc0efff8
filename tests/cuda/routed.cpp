// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device views over the fake NCCL within a node, and by staged messages between nodes: two_level, any rank numbering, and failures of either transport.
#include "collectives/every_reduction.hpp"
#include "cuda/nccl_ranks.hpp"
#include "cuda/on_double.hpp"
#include "laws/message_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/routed_threads.hpp"

#include <kolo/cuda/routed.hpp>

using namespace testing;

namespace {

using staged = kolo::cuda::on_device<message_transport>;
using two_wires = kolo::cuda::routed<kolo::nccl::transport, staged>;

using settled_wires = settled<two_wires>;

/// Runs f(comm) on nodes.size() threads; rank r is on node nodes[r].
template <class T, class F>
void run_on_nodes(const std::vector<int>& nodes, F f, std::size_t piece_bytes = usual_slot) {
  cuda_double::the.takes_all_memory = std::is_same_v<T, settled_wires>;
  const auto end = [] { nccl_double::reset(); };
  const auto size = static_cast<int>(nodes.size());
  kolo::detail::shm::private_mapping memory;
  const kolo::detail::shm::region_shape shape{size, impatient(piece_bytes)};
  const auto region = kolo::threads::transport::initialise(memory, shape);
  try {
    kolo::threads::run(
        size,
        [&](auto& all) {
          const int node = nodes[static_cast<std::size_t>(all.rank())];
          auto here = all.split(node, all.rank());
          kolo::communicator<T> comm{kolo::nccl::transport{here, {.timeout = 60s}},
                                     staged{kolo::cuda::route::staged, memory, region, shape, all.rank()}, node};
          f(comm);
        },
        impatient(usual_slot));
  } catch (...) {
    end();
    throw;
  }
  end();
}
template <auto Nodes>
struct over_both {
  using communicator = kolo::communicator<settled_wires>;
  template <class F>
  static void run(int p, F f, std::size_t piece_bytes) {
    run_on_nodes<settled_wires>(Nodes(p), f, piece_bytes);
  }
};
template <class Law>
std::vector<std::string> each_says(const std::vector<int>& nodes, Law law) {
  std::vector<std::string> said(nodes.size(), "nothing");
  run_on_nodes<settled_wires>(nodes,
                              [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = law(comm.transport()); });
  return said;
}

}  // namespace

TEST_CASE("routed: the transport laws") {
  for (const auto& nodes : {in_threes(1), together(2), by_turns(3), in_threes(7)}) {
    const auto p = static_cast<int>(nodes.size());
    CHECK(each_says(nodes, laws::is_constant) == all_say(p, ""));
    CHECK(each_says(nodes, laws::failure_wakes_everybody) == all_say(p, ""));
    CHECK(each_says(nodes, laws::messages_arrive_in_order) == all_say(p, ""));
    CHECK(each_says(nodes, laws::split_orders_by_key_and_rank) == all_say(p, ""));
    const auto said = each_says(nodes, laws::keeps_the_first_failure);
    CHECK(said[0].starts_with("first "));
    CHECK(said == all_say(p, said[0]));
  }
}

TEST_CASE("routed: collectives that reduce, in any rank numbering") {
  const auto each = [](auto& comm, complaints& wrong) {
    every_allreduce(comm, wrong, 101);
    every_reduce_scatter(comm, wrong, 101);
  };
  CHECK(on_ranks<over_both<in_threes>>(8, each) == "");
  CHECK(on_ranks<over_both<in_threes>>(4, each, small_slot) == "");
  CHECK(on_ranks<over_both<by_turns>>(5, each) == "");
  CHECK(on_ranks<over_both<together>>(3, each) == "");
}

TEST_CASE("routed: two_level on device views gives the sum and the maximum") {
  for (const auto& nodes : {in_threes(6), in_threes(7), std::vector{0, 1, 1, 2}}) {
    const auto p = static_cast<int>(nodes.size());
    complaints wrong;
    run_on_nodes<two_wires>(nodes, [&](auto& comm) {
      const kolo::cuda::stream s;
      const auto machine = kolo::topology_of(comm);
      for (int n = 0; n <= nodes.back(); ++n)
        if (comm.node_count() != nodes.back() + 1 || machine.size(n, p) != std::count(nodes.begin(), nodes.end(), n))
          wrong.say("the nodes");
      for (const std::size_t n : std::initializer_list<std::size_t>{1, 1000, 20'000}) {
        tensor<float> x{of_rank(comm.rank(), n), s};
        kolo::allreduce(comm, x.view(), kolo::sum, kolo::two_level<>{.nodes = machine}, {.stream = s});
        comm.transport().wait({.stream = s});
        expect_same(wrong, "two_level", comm.rank(), x.values(), summed(p, n));
        kolo::allreduce(comm, x.view(), kolo::max, kolo::two_level<kolo::circulant, kolo::ring>{.nodes = machine},
                        {.stream = s});
        expect_same(wrong, "two_level of circulant and ring", comm.rank(), x.values(), summed(p, n));
      }
      views_of_every_kind(comm, wrong, s);
      keeps_the_order_of_streams(comm, wrong, s);
    });
    CHECK(wrong.text() == "");
  }
}

TEST_CASE("routed: wait on another stream includes what the far transport has put on the stream of the call") {
  complaints wrong;
  run_on_nodes<two_wires>({0, 1}, [&](auto& comm) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 100), s};
    auto request = kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
    while (!request.test()) std::this_thread::yield();
    comm.transport().wait();
    const cuda_double::eyes open;
    const auto expected = summed(2, 100);
    wrong.expect(std::equal(expected.begin(), expected.end(), x.data()), "wait came back before the sum");
  });
  CHECK(wrong.text() == "");
}

TEST_CASE("routed: only messages between nodes use the far transport") {
  run_on_nodes<two_wires>(in_threes(6), [](auto& comm) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 600), s};
    nccl_double::calls.clear();
    kolo::allreduce(comm, x.view(), kolo::sum, kolo::two_level<kolo::ring, kolo::ring>{.nodes = {.ranks_per_node = 3}},
                    {.stream = s});
    const auto sends = std::count(nccl_double::calls.begin(), nccl_double::calls.end(), "ncclSend");
    if (sends != 4)
      throw std::runtime_error("a ring among three has two rounds there and two back, and NCCL sent " +
                               std::to_string(sends));
    comm.transport().wait({.stream = s});
  });
}

TEST_CASE("routed: an NCCL error on one node is thrown on all ranks, with the global rank") {
  const std::vector<int> nodes{0, 0, 1, 1};
  std::vector<std::string> said(4);
  run_on_nodes<two_wires>(nodes, [&](auto& comm) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 100), s};
    said[static_cast<std::size_t>(comm.rank())] = cause_of([&] {
      kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
      comm.transport().wait({.stream = s});
      if (comm.rank() == 3) {
        const cuda_double::guard held{cuda_double::the.lock};
        comm.transport().near_transport().native_handle()->fault = ncclRemoteError;
      }
      for (int k = 0; k < 1000; ++k) kolo::barrier(comm, {.stream = s});
    });
  });
  INFO(said[0]);
  CHECK(said[0].starts_with("rank 3: NCCL: remote process exited"));
  CHECK(said == all_say(4, said[0]));
}

TEST_CASE("routed: a failure between nodes also ends the neighbours' waits for NCCL") {
  const std::vector<int> nodes{0, 0, 1, 1};
  std::vector<std::string> said(4);
  const auto start = std::chrono::steady_clock::now();
  run_on_nodes<two_wires>(nodes, [&](auto& comm) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 100), s};
    auto& t = comm.transport();
    const auto is_waiting = [] {
      const cuda_double::guard held{cuda_double::the.lock};
      return std::any_of(nccl_double::all.begin(), nccl_double::all.end(),
                         [](const auto& c) { return !c->waiting.empty(); });
    };
    said[static_cast<std::size_t>(comm.rank())] = cause_of([&] {
      if (comm.rank() == 1) {
        t.begin({.stream = s});
        t.receive(0, reinterpret_cast<std::byte*>(x.view().data()), 400, 0);
        t.submit();
      } else if (comm.rank() == 2) {
        while (!is_waiting()) std::this_thread::yield();
        t.fail(kolo::failure_from({}, kolo::errc::system, 2, {}, "gives up"));
      }
      while (!t.failed()) std::this_thread::yield();
      throw kolo::error{*t.failed()};
    });
  });
  CHECK(said[2] == "rank 2: gives up");
  CHECK(said == all_say(4, said[2]));
  CHECK(std::chrono::steady_clock::now() - start < 30s);  // before the deadline
}

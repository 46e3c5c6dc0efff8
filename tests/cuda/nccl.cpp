// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Communicators over the fake NCCL: laws, NCCL's own collectives, which NCCL calls a kolo call makes, and in which order.
#include <kolo/explain.hpp>

#include <barrier>

#include "cuda/nccl_calls.hpp"
#include "cuda/nccl_ranks.hpp"
#include "laws/message_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/routed_threads.hpp"

using namespace testing;

namespace {

template <class Law>
std::vector<std::string> in_messages(int p, Law law) {
  std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
  cuda_double::the.takes_all_memory = true;
  std::barrier all_have_come{
      p};  // a law may end with a failure, which would reach a rank that still makes its communicator
  run_nccl_threads<settled_nccl>(p, [&](auto& comm) {
    all_have_come.arrive_and_wait();
    said[static_cast<std::size_t>(comm.rank())] = law(comm.transport());
  });
  return said;
}

/// Runs f(comm, wrong, stream) on views in device memory.
template <class F>
void on_devices(std::initializer_list<int> sizes, F f) {
  for (const int p : sizes) CHECK(on_device_ranks(p, f) == "");
}

}  // namespace

TEST_CASE("nccl: the transport laws") {
  for (const int p : {1, 2, 3, 4, 8}) {
    CHECK(in_messages(p, laws::is_constant) == all_say(p, ""));
    CHECK(in_messages(p, laws::failure_wakes_everybody) == all_say(p, ""));
    CHECK(in_messages(p, laws::split_orders_by_key_and_rank) == all_say(p, ""));
    CHECK(in_messages(p, laws::messages_arrive_in_order) == all_say(p, ""));
  }
  CHECK(in_messages(3, laws::deadline_passes) == all_say(3, ""));
  for (const int p : {1, 2, 3, 8}) {
    const auto said = in_messages(p, laws::keeps_the_first_failure);
    CHECK(said[0].starts_with("first "));
    CHECK(said == all_say(p, said[0]));
  }
}

TEST_CASE("nccl: calls on spans, strided views and buckets; stream order") {
  on_devices({1, 2, 3, 8}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    views_of_every_kind(comm, wrong, s);
    keeps_the_order_of_streams(comm, wrong, s);
  });
}

TEST_CASE("nccl: NCCL's own collectives give the results of kolo's algorithms") {
  on_devices({1, 2, 3, 4, 5, 6, 7, 8},
             [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) { as_ours(comm, wrong, s); });
}

TEST_CASE("nccl: automatic selects NCCL's own collective where the operator and the order allow it") {
  on_devices({4}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> x{of_rank(comm.rank(), 1000), s}, all{std::vector<float>(4000), s};
    tensor<int> i{std::vector<int>(1000), s};
    const auto expect = [&](const char* wanted) {
      const auto got = calls();
      wrong.expect(got == wanted, std::string{wanted} + "was expected, not " + got);
    };
    calls();
    kolo::allreduce(comm, i.view(), kolo::sum, {.stream = s});
    expect("GroupStart AllReduce GroupEnd ");
    kolo::broadcast(comm, x.view(), 1, {.stream = s});
    expect("GroupStart Broadcast GroupEnd ");
    kolo::allgather(comm, x.view(), all.view(), {.stream = s});
    expect("GroupStart AllGather GroupEnd ");
    kolo::allreduce(comm, x.view(), kolo::average, kolo::ordered<kolo::order::any>(kolo::automatic{}), {.stream = s});
    expect("GroupStart AllReduce GroupEnd ");
    kolo::allreduce(comm, x.view(), kolo::average, {.stream = s});
    expect("GroupStart AllReduce GroupEnd ");
    const auto keeps_to_ours = [&](const char* why) {
      const auto got = calls();
      wrong.expect(got.find("AllReduce") == std::string::npos && got.find("Send") != std::string::npos, why + got);
    };
    kolo::allreduce(comm, x.view(), kolo::average, kolo::ordered<kolo::order::fixed_for_size>(kolo::automatic{}),
                    {.stream = s});
    keeps_to_ours("bits that NCCL does not promise: ");
    kolo::allreduce(comm, x.view(), [](float a, float b) { return a > b ? a : b; }, {.stream = s});
    keeps_to_ours("an operator that NCCL does not have: ");
    kolo::allreduce(comm, x.view(), kolo::max, {.stream = s});
    keeps_to_ours("a NaN that NCCL may lose: ");
    kolo::allreduce(comm, i.view(), kolo::max, {.stream = s});
    expect("GroupStart AllReduce GroupEnd ");
    kolo::allreduce(comm, x.view(), kolo::wire<kolo::bfloat16>(kolo::sum), {.stream = s});
    keeps_to_ours("a wire type that NCCL does not have: ");
    auto told = kolo::explain(comm, kolo::kind::allreduce, 4000);
    wrong.expect(told.choice == "native" && told.reason.find("comes first") != std::string::npos, told.message());
    wrong.expect(
        told.message().find("native              not measured  the transport's own collective, which comes first") !=
            std::string::npos,
        told.message());
    told = kolo::explain(comm, kolo::kind::allreduce, 4000, {.native = false});
    wrong.expect(told.choice != "native" && told.reason.find("assumed network") != std::string::npos, told.message());
    told = kolo::explain(comm, kolo::kind::allreduce, std::size_t{1} << 33);
    wrong.expect(told.choice == "native", told.message());
  });
}

TEST_CASE("nccl: a round is one group, with all sends before the receives") {
  on_devices({4}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> x{of_rank(comm.rank(), 1000), s}, all{std::vector<float>(4000), s};
    calls();
    kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
    std::string six;
    for (int k = 0; k < 6; ++k) six += "GroupStart Send Recv GroupEnd ";
    const auto got = calls();
    wrong.expect(got == six, got);
    kolo::allgather(comm, x.view(), all.view(), kolo::one_shot{}, {.stream = s});
    const auto one = calls();
    wrong.expect(one == "GroupStart Send Send Send Recv Recv Recv GroupEnd ", one);
  });
}

TEST_CASE("nccl: a stream of another device is refused with both device numbers") {
  std::vector<std::string> said(2), waits(2), first_waits(2);
  cuda_double::the.devices = 2;
  CHECK_THROWS_AS(run_nccl_threads<kolo::nccl::transport>(
                      2,
                      [&](auto& comm) {
                        const auto r = static_cast<std::size_t>(comm.rank());
                        const kolo::cuda::stream s;
                        kolo::cuda::set_device(1);
                        const kolo::cuda::stream foreign;
                        first_waits[r] = words_of([&] { comm.transport().wait(); });
                        kolo::cuda::set_device(0);
                        tensor<float> x{of_rank(0, 10), s};
                        waits[r] = words_of([&] { comm.transport().wait({.stream = foreign}); });
                        kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});  // the communicator still works
                        x.values();
                        said[r] = words_of([&] {
                          kolo::allreduce(comm, x.view(), kolo::sum, {.stream = r == 0 ? foreign.get() : s.get()});
                          comm.transport().wait({.stream = s});
                        });
                        comm.transport().wait({.stream = s});
                      }),
                  kolo::error);
  cuda_double::the.devices = 1;
  for (const auto* all : {&said, &waits})
    for (const auto& words : *all)
      CHECK(words.find("the communicator works on device 0, and the stream is of device 1") != std::string::npos);
  for (const auto& words : first_waits)
    CHECK(words.find("the communicator works on device 0, and the calling thread's current device is 1") !=
          std::string::npos);
}

TEST_CASE("nccl: a communicator over an existing ncclComm_t works, and does not destroy it") {
  cuda_double::the.takes_all_memory = false;
  std::vector<std::string> said(3);
  ncclUniqueId id{};
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  kolo::threads::run(3, [&](auto& host) {
    ncclComm_t existing = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    ncclCommInitRankConfig(&existing, 3, id, host.rank(), &config);
    {
      kolo::nccl::communicator comm{existing};
      const kolo::cuda::stream s;
      tensor<float> x{of_rank(comm.rank(), 10), s};
      kolo::allreduce(comm, x.view(), kolo::sum, kolo::circulant{}, {.stream = s});
      said[static_cast<std::size_t>(host.rank())] = x.values() == summed(3, 10) ? "" : "a wrong sum";
      auto plan = kolo::plan_allreduce(comm, x.view(), kolo::max, {.stream = s});
      for (int k = 0; k < 3; ++k) plan.run();
      if (x.values() != summed(3, 10) || plan.how() != "a CUDA graph")
        said[static_cast<std::size_t>(host.rank())] = "its plan: " + plan.how();
      auto part = comm.split(comm.rank() == 0 ? 1 : 2, 0);
      if (part.size() != (comm.rank() == 0 ? 1 : 2)) said[0] = "a wrong group";
      if (part.node_rank() != part.rank() || part.node_count() != part.size())
        said[0] = "a wrong node rank in the group";
      if (words_of([&] { comm.split(-1, 0); }).find("must not be negative, and it is -1") == std::string::npos)
        said[0] = "a negative color was accepted";
    }
    ncclCommDestroy(existing);
  });
  CHECK(said == std::vector<std::string>(3));
  CHECK(nccl_double::alive == 0);
  CHECK(nccl_double::destroyed == 6);
  CHECK(nccl_double::aborted == 0);
  nccl_double::reset();
}

TEST_CASE("nccl: the nodes are those of the host's communicator") {
  cuda_double::the.takes_all_memory = false;
  std::vector<int> nodes(4);
  run_routed_threads({0, 0, 1, 1}, [&](auto& host) {
    const kolo::nccl::options o{.timeout = 60s};
    auto by_turns = host.split(0, host.rank() % 2);
    kolo::nccl::communicator comm{host, o}, other{by_turns, o}, alone{comm.transport().native_handle()};
    const bool is_same = comm.node_count() == 2 && kolo::topology_of(comm).ranks_per_node == 2;
    const auto words = words_of([&] { kolo::topology_of(other); });
    const bool is_told = words.find("ranks are not numbered node by node") != std::string::npos;
    nodes[static_cast<std::size_t>(host.rank())] = is_same && is_told ? kolo::topology_of(alone).ranks_per_node : 0;
  });
  CHECK(nodes == std::vector<int>(4, 1));  // over an existing ncclComm_t each rank is a node
  nccl_double::reset();
}

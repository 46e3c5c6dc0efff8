// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport over MPI beside the program's MPI messages, after split, before MPI_Init and after MPI_Finalize; its allocations.
#include "support/count_allocations.hpp"

#include "mpi/layouts.hpp"
#include "mpi/world.hpp"
#include "support/ends.hpp"

#include <optional>

using namespace testing;

namespace {

void places(mpi_world& world) {
  world.run("placement with hosts of different sizes", [&](complaints& wrong) {
    const auto is = [&](const kolo::placement& p, int local_rank, int local_size, int node_rank, int node_count) {
      wrong.expect(p.local_rank == local_rank && p.local_size == local_size && p.node_rank == node_rank &&
                       p.node_count == node_count,
                   "local " + std::to_string(p.local_rank) + " of " + std::to_string(p.local_size) + ", node " +
                       std::to_string(p.node_rank) + " of " + std::to_string(p.node_count));
    };
    kolo::mpi::communicator all{MPI_COMM_WORLD}, groups{MPI_COMM_WORLD, kolo::mpi::options{.ranks_per_node = 3}};
    is(all.transport().place(), world.rank(), world.size(), 0, 1);
    is(groups.transport().place(), world.rank() % 3, std::min(3, world.size() - world.rank() / 3 * 3), world.rank() / 3,
       (world.size() + 2) / 3);
    if (world.size() < 4) return;
    auto turned = groups.split(0, -world.rank());  // the last rank becomes rank 0
    const int first_node = world.size() % 3 == 0 ? 3 : world.size() % 3;
    if (world.rank() == 0) is(turned.transport().place(), 2, 3, (world.size() + 2) / 3 - 1, (world.size() + 2) / 3);
    if (turned.rank() == 0) is(turned.transport().place(), 0, first_node, 0, (world.size() + 2) / 3);
  });
}

bool is_refused(callable_ref<> make) { return end_of(make).starts_with("invalid argument"); }

/// Names the functions that accept `comm`; empty if each refuses it.
std::string not_refused(MPI_Comm comm, const std::shared_ptr<kolo::mpi::carrier>& all) {
  std::string said;
  if (!is_refused([&] { kolo::mpi::communicator{comm}; })) said += " a communicator";
  if (!is_refused([&] { kolo::mpi::routed_communicator{comm}; })) said += " routed";
  if (!is_refused([&] { kolo::mpi::carrier{comm}; })) said += " a carrier";
  if (!is_refused([&] { kolo::mpi::communicator{all, comm, std::vector{0}}; })) said += " carried";
  if (!is_refused([&] { all->ranks_of(comm); })) said += " its ranks";
  return said;
}

void refused(mpi_world& world) {
  world.run("MPI_COMM_NULL and an inter-communicator are refused", [&](complaints& wrong) {
    const auto all = std::make_shared<kolo::mpi::carrier>(MPI_COMM_WORLD);
    auto said = not_refused(MPI_COMM_NULL, all);
    wrong.expect(said.empty(), "made of MPI_COMM_NULL:" + said);
    if (world.size() == 1) return;
    MPI_Comm half = MPI_COMM_NULL, both = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world.rank() % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world.rank() % 2, 7, &both);
    said = not_refused(both, all);
    wrong.expect(said.empty(), "made of an inter-communicator:" + said);
    MPI_Comm_free(&both), MPI_Comm_free(&half);
  });
}

/// The first ranks that know their group ask MPI to make it while the last ones still wait for theirs: MPI's message was once taken for a mismatch.
void groups(mpi_world& world) {
  world.run("one split after another", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, kolo::mpi::options{.timeout = std::chrono::seconds{60}}};
#if defined(OPEN_MPI)
    const int times = 1000;
#else
    const int times = 10;  // one split of 8 ranks on 2 cores takes MPICH 88 ms
#endif
    for (int k = 0; k < times; ++k) {
      auto turned = comm.split(0, (comm.rank() + k) % comm.size());
      wrong.expect(turned.rank() == (comm.rank() + k) % comm.size(), "group " + std::to_string(k));
    }
  });
}

void counts(mpi_world& world) {
  world.run("counts past 2^31, with small chunks", [&](complaints& wrong) {
    for (const std::size_t bytes :
         {std::size_t{5}, std::size_t{7}, std::size_t{1000}, std::size_t{1001}, std::size_t{12'345}}) {
      std::vector<std::byte> out(bytes), in(bytes + 1, std::byte{'x'});
      for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i % 97);
      kolo::detail::mpi::runs none;
      const kolo::detail::mpi::message_memory sent{out.data(), bytes, none, 7}, received{in.data(), bytes, none, 7};
      MPI_Sendrecv(sent.at, sent.count, sent.type, world.rank(), 1, const_cast<void*>(received.at), received.count,
                   received.type, world.rank(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      wrong.expect(std::equal(out.begin(), out.end(), in.begin()) && in.back() == std::byte{'x'},
                   std::to_string(bytes) + " bytes in chunks of 7");
    }
    const std::size_t huge = (std::size_t{5} << 30) + 3;
    const std::byte first{};
    kolo::detail::mpi::runs none;
    const kolo::detail::mpi::message_memory all{&first, huge, none};
    MPI_Count size = 0;
    MPI_Type_size_x(all.type, &size);
    wrong.expect(static_cast<std::size_t>(size) * static_cast<std::size_t>(all.count) == huge,
                 "a type of " + std::to_string(size) + " bytes");
  });
}

/// While operations are pending the program sends its own messages, with every tag, on the communicator that kolo was given.
void beside(mpi_world& world) {
  world.run("several communicators at once, beside the program's own messages", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD}, other{MPI_COMM_WORLD};
    auto half = comm.split(comm.rank() % 2, comm.rank());
    const int p = comm.size(), next = (comm.rank() + 1) % p, last = (comm.rank() + p - 1) % p;
    for (int k = 0; k < 3; ++k) {
      std::vector<int> x(30'000, 1), y(77, comm.rank()), z(5000, 1);
      auto first = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{});
      auto second = kolo::start_broadcast(other, y, p - 1);
      auto third = kolo::start_allreduce(half, z, kolo::sum);
      auto fourth = kolo::start_allreduce(comm, z, kolo::max);
      int sent = comm.rank() + k, got = -1;
      MPI_Sendrecv(&sent, 1, MPI_INT, next, k, &got, 1, MPI_INT, last, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      third.wait(), second.wait(), fourth.wait();
      while (!first.test()) continue;
      wrong.expect(got == last + k, "the program's own message");
      wrong.expect(x == std::vector<int>(30'000, p) && y == std::vector<int>(77, p - 1), "two communicators at once");
      wrong.expect(z == std::vector<int>(5000, (p + 1) / 2), "the child communicator");
    }
  });
}

/// A wait advances all pending operations: each rank waits in another order, for vectors too long for MPI's eager protocol.
void in_any_order(mpi_world& world) {
  world.run("requests on several communicators, waited for in another order on each rank", [&](complaints& wrong) {
    if (world.size() > 4) return;
    const kolo::mpi::options o{.timeout = std::chrono::seconds{20}};
    kolo::mpi::communicator comm{MPI_COMM_WORLD, o};
    auto other = comm.split(0, -comm.rank());
    std::vector<int> x(200'000, 1), y(200'000, 1);
    auto first = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{}),
         second = kolo::start_allreduce(other, y, kolo::sum, kolo::ring{});
    comm.rank() == 0 ? (first.wait(), second.wait()) : (second.wait(), first.wait());
    wrong.expect(x == std::vector<int>(x.size(), comm.size()) && y == x, "the sums");
    auto again = kolo::start_allreduce(comm, x, kolo::max, kolo::ring{});
    if (comm.rank() == 0) again.wait();
    auto part = other.split(0, other.rank());
    kolo::barrier(part);
    again.wait();
  });
}

struct ours {
  kolo::ring allreduce, reduce_scatter, allgather;
  kolo::binomial reduce, broadcast, gather, scatter;
  kolo::pairwise alltoall;
  kolo::recursive_doubling scan;
};

void layouts(mpi_world& world) {
  world.run("views with another layout on each rank, packed and as runs", [&](complaints& wrong) {
    const kolo::mpi::options packed{.shortest_run = std::size_t{1} << 40}, runs{.shortest_run = 1},
        both{.piece_bytes = 64, .shortest_run = 24};
    for (const auto& o : {packed, runs, both}) {
      if (world.size() > 4) break;
      kolo::mpi::communicator comm{MPI_COMM_WORLD, o};
      layouts_of_a_rank rank{wrong, comm};
      rank.reduce_all(ours{}), rank.move_all(ours{});
    }
  });
}

/// The root of a broadcast never waits, and still learns that another rank has failed.
void failure_channel(mpi_world& world) {
  world.run("a rank that never waits learns of a failure", [&](complaints& wrong) {
    if (world.size() == 1) return;
    kolo::mpi::communicator comm{MPI_COMM_WORLD};
    if (comm.rank() > 0) comm.transport().fail(kolo::failure{});
    MPI_Barrier(MPI_COMM_WORLD);
    if (comm.rank() > 0) return;
    int x = 1;
    try {
      for (int i = 0; i < 320; ++i) kolo::broadcast(comm, std::span{&x, 1}, 0, kolo::one_shot{});
      wrong.say("the failure was not reported");
    } catch (const kolo::error&) {
    }
  });
}

template <class F>
void expect_none(complaints& wrong, const char* call, F f) {
  f();
  const long before = allocations;
  f();
  const long n = allocations - before;
  wrong.expect(n == 0, std::string{call} + ": " + std::to_string(n) + " allocations");
}

void memory(mpi_world& world) {
  world.run("a second run allocates nothing", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, kolo::mpi::options{.piece_bytes = 4096}};
    std::vector<int> x(5000, comm.rank()), all(5000 * static_cast<std::size_t>(comm.size()));
    auto ring = kolo::plan_allreduce(comm, x, kolo::sum, kolo::ring{});
    auto direct = kolo::plan_allreduce(comm, x, kolo::sum, kolo::one_shot{});
    auto gather = kolo::plan_allgather(comm, x, all, kolo::circulant{});
    auto chain = kolo::plan_broadcast(comm, x, 0, kolo::chain{.segments = 8});
    auto barrier = kolo::plan_barrier(comm);
    kolo::mpi::communicator runs{MPI_COMM_WORLD, kolo::mpi::options{.shortest_run = 1}};
    kolo::strided<int, 2> rows{x.data(), {10, 7}, {11, 1}};
    auto typed = kolo::plan_allreduce(runs, rows, kolo::sum, kolo::ring{});
    auto native = kolo::plan_broadcast(runs, rows, 0, kolo::native{});
    expect_none(wrong, "ring", [&] { ring.run(); });
    expect_none(wrong, "one_shot", [&] { direct.run(); });
    expect_none(wrong, "allgather", [&] { gather.run(); });
    expect_none(wrong, "broadcast", [&] { chain.run(); });
    expect_none(wrong, "barrier", [&] { barrier.run(); });
    expect_none(wrong, "rows", [&] { typed.run(); });
    expect_none(wrong, "rows, MPI's own", [&] { native.run(); });
    expect_none(wrong, "a blocking call", [&] { kolo::allreduce(comm, x, kolo::max); });
    expect_none(wrong, "a small blocking call",
                [&] { kolo::allreduce(comm, std::span{x}.first(3), kolo::max, kolo::one_shot{}); });
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_refused([] { kolo::mpi::communicator{MPI_COMM_WORLD}; }) ||
      !is_refused([] { kolo::mpi::carrier{MPI_COMM_WORLD}; })) {
    std::puts("FAILED a communicator before MPI_Init was accepted");
    return 1;
  }
  std::optional<kolo::mpi::communicator> too_late, broken, busy;
  std::vector<int> x(100'000);
  std::optional<kolo::request<kolo::mpi::transport>> pending;
  std::shared_ptr<kolo::mpi::carrier> left;
  int status = 0;
  {
    kolo::mpi::environment env{argc, argv}, second{argc, argv};
    mpi_world world;
    world.run("a thread level that MPI was not initialised with is refused", [&](complaints& wrong) {
      int level = MPI_THREAD_SINGLE;
      MPI_Query_thread(&level);
      try {
        const kolo::mpi::environment many{argc, argv, MPI_THREAD_MULTIPLE};
        wrong.expect(level == MPI_THREAD_MULTIPLE, "the missing thread level was not reported");
      } catch (const kolo::error& e) {
        wrong.expect(e.code() == kolo::errc::invalid_argument && level < MPI_THREAD_MULTIPLE, e.what());
      }
    });
    places(world);
    refused(world);
    groups(world);
    counts(world);
    beside(world);
    in_any_order(world);
    layouts(world);
    failure_channel(world);
    memory(world);
    status = world.status();
    too_late.emplace(MPI_COMM_WORLD);
    broken.emplace(MPI_COMM_WORLD);
    broken->transport().fail(kolo::failure{});
    busy.emplace(MPI_COMM_WORLD);
    left = std::make_shared<kolo::mpi::carrier>(MPI_COMM_WORLD);
    pending.emplace(kolo::start_allreduce(*busy, x, kolo::sum, kolo::ring{}));
  }
  const auto words = words_of([&] { kolo::allreduce(*too_late, x, kolo::sum); });
  if (busy->size() > 1 && words.find("MPI_Finalize has been called") == std::string::npos) {
    std::printf("FAILED a call after MPI_Finalize: \"%s\"\n", words.c_str());
    return 1;
  }
  if (const auto said = not_refused(MPI_COMM_WORLD, left); !said.empty()) {
    std::printf("FAILED after MPI_Finalize was made:%s\n", said.c_str());
    return 1;
  }
  return status;  // all are destroyed after MPI_Finalize
}

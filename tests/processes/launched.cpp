// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives on up to 8 processes, with and without a core for each.
#include "collectives/every_reduction.hpp"
#include "collectives/movements.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

template <class F>
void on_each_number(F each) {
  for (const int p : {1, 2, 3, 4, 8})
    for (const auto slot : {usual_slot, small_slot}) {
      const auto end = on_processes(p,
                                    [&](auto& comm) {
                                      complaints wrong;
                                      each(comm, wrong, slot == usual_slot ? 1009 : 211);
                                      return wrong.text();
                                    },
                                    {.timeout = std::chrono::seconds{60}, .slot_bytes = slot});
      CHECK(end.said == all_say(p, ""));
      CHECK(end.status == 0);
      CHECK(end.errors == "");
      CHECK(end.clean);
    }
}

}  // namespace

TEST_CASE("processes: collectives that combine") {
  on_each_number([](auto& comm, complaints& wrong, std::size_t n) {
    every_allreduce(comm, wrong, n);
    try_reduce_scatter(comm, wrong, "circulant reduce_scatter", n, kolo::circulant{});
    try_reduce(comm, wrong, "binomial reduce", n, kolo::binomial{});
    try_scans(comm, wrong, "automatic scan", n, kolo::automatic{});
  });
}

TEST_CASE("processes: collectives that do not combine") {
  on_each_number([](auto& comm, complaints& wrong, std::size_t n) {
    try_broadcast(comm, wrong, "broadcast in 3 segments", n, kolo::chain{.segments = 3});
    try_broadcast(comm, wrong, "van de Geijn's broadcast", n, kolo::van_de_geijn{});
    try_allgather(comm, wrong, "automatic allgather", n, kolo::automatic{});
    try_gather_and_scatter(comm, wrong, "binomial", n, kolo::binomial{});
    try_alltoall(comm, wrong, "automatic alltoall", n, kolo::automatic{});
    kolo::barrier(comm);
  });
}

TEST_CASE("processes: a large allreduce") {
  const auto end = on_processes(4, [](auto& comm) {
    complaints wrong;
    try_allreduce(comm, wrong, "automatic allreduce", 3'000'017, kolo::automatic{});
    try_allreduce(comm, wrong, "ring allreduce", 3'000'017, kolo::ring{});
    return wrong.text();
  });
  CHECK(end.said == all_say(4, ""));
}

TEST_CASE("processes: split, and split of a child") {
  const auto end = on_processes(8, [](auto& comm) {
    auto half = comm.split(comm.rank() / 4, -comm.rank());
    auto pair = half.split(half.rank() / 2, 0);
    complaints wrong;
    for (int k = 0; k < 10; ++k) {
      try_allreduce(half, wrong, "half", 501, kolo::ring{});
      try_allreduce(pair, wrong, "pair", 501, kolo::two_shot{});
      try_allreduce(comm, wrong, "whole", 501, kolo::recursive_doubling{});
    }
    return std::to_string(half.rank()) + std::to_string(pair.rank()) + wrong.text();
  });
  CHECK(end.said == std::vector<std::string>{"31", "20", "11", "00", "31", "20", "11", "00"});
  CHECK(end.clean);
}

TEST_CASE("launch: any integer that a rank returns becomes an exit status") {
  CHECK(kolo::shm::launch(1, [](auto&) { return 1L << 32; }) == 1);
  CHECK(kolo::shm::launch(1, [](auto&) { return 3L; }) == 3);
}

TEST_CASE("launch: fewer than one process is refused") {
  const auto nothing = [](auto&) {};
  CHECK_THROWS_WITH(kolo::shm::launch(0, nothing), "kolo: at least one rank must be launched, not 0");
  CHECK_THROWS_WITH(kolo::shm::launch(-3, nothing), "kolo: at least one rank must be launched, not -3");
}

TEST_CASE("world: one rank without a launcher") {
  for (const char* name :
       {"KOLO_RANK", "KOLO_SIZE", "RANK", "WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
    ::unsetenv(name);
  auto comm = kolo::shm::world();
  CHECK(comm.size() == 1);
  CHECK(comm.rank() == 0);
  std::vector<int> x{4, 5};
  kolo::allreduce(comm, x, kolo::sum);
  CHECK(x == std::vector<int>{4, 5});
  auto alone = comm.split(3, 0);
  CHECK(alone.size() == 1);
  auto patient = kolo::shm::world({.timeout = std::chrono::seconds{30}});
  CHECK(patient.transport().timeout() == std::chrono::seconds{30});
}

TEST_CASE("meet: processes meet by a common name, with any rank numbers") {
  const auto end = on_processes(3, [](auto& comm) {
    auto all = kolo::shm::meet(2 - comm.rank(), 3, "all");
    std::vector<int> x{comm.rank()};
    kolo::broadcast(all, x, 0);
    if (comm.rank() == 0) return std::to_string(x[0]);
    auto two = kolo::shm::meet(comm.rank() - 1, 2, "two");
    std::vector<int> y{comm.rank()};
    kolo::allreduce(two, y, kolo::sum);
    return std::to_string(x[0]) + std::to_string(y[0]) + std::to_string(two.size());
  });
  CHECK(end.said == std::vector<std::string>{"2", "232", "232"});
  CHECK(end.clean);
  // Their requests progress while they wait: for the address, at the rendezvous, and for the answer.
  const auto met = on_processes(3, [](auto& comm) {
    constexpr auto for_ever = std::chrono::nanoseconds::max();
    std::vector<int> x{comm.rank()};
    auto started = kolo::start_allreduce(comm, x, kolo::sum);
    if (comm.rank() == 2) started.wait();
    auto all = kolo::shm::meet(comm.rank(), 3, "later", {.timeout = for_ever});
    started.wait();
    return end_of([&] { kolo::barrier(all, {.timeout = for_ever}); }) + std::to_string(x[0]);
  });
  CHECK(met.said == all_say(3, "fine3"));
  const kolo::shm::options soon{.timeout = std::chrono::milliseconds{50}};
  CHECK_THROWS_WITH(kolo::shm::meet(3, 3, "all", soon),
                    "kolo: meet takes a name, and a rank that is one of the ranks: rank 3 of 3 as \"all\" is none");
  CHECK_THROWS_WITH(kolo::shm::meet(0, 1, "", soon),
                    "kolo: meet takes a name, and a rank that is one of the ranks: rank 0 of 1 as \"\" is none");
}

TEST_CASE("meet: a name of world or of grow is another one") {
  const auto name = "apart " + std::to_string(::getpid());
  wire calls;
  child world{[&] {
    ::setenv("KOLO_JOB", name.c_str(), 1);
    ::setenv("KOLO_RANK", "0", 1);
    ::setenv("KOLO_SIZE", "2", 1);
    calls.say("!");
    return end_of([] { kolo::shm::world(); });
  }};
  child group{[&]() -> std::string {
    kolo::shm::launch(1, [&](auto& comm) { calls.say("!"), comm.grow(name); });
    return "";
  }};
  calls.hear(2);
  for (const auto& other : {name + "/0", "grow/" + name})
    CHECK(end_of([&] { kolo::shm::meet(1, 2, other, {.timeout = std::chrono::milliseconds{500}}); }) == "timeout 0");
}

TEST_CASE("world: after a failure, all ranks call it again under the same name") {
  wire has_failed;
  const auto worlds_of = [&](const char* rank) {
    ::setenv("KOLO_JOB", std::to_string(::getppid()).c_str(), 1);
    ::setenv("KOLO_RANK", rank, 1);
    ::setenv("KOLO_SIZE", "2", 1);
    const auto world = [](const kolo::shm::options& o) { return end_of([&] { kolo::shm::world(o); }) + ' '; };
    std::string said;
    if (*rank == '0') {
      said = world({.slot_bytes = ~std::size_t{0}}) + world({.timeout = std::chrono::milliseconds{1}});
      has_failed.say("!");
    } else {
      has_failed.hear();
    }
    for (int again = 0; again < 2; ++again) said += world({.timeout = std::chrono::seconds{20}});
    return said;
  };
  child first{[&] { return worlds_of("0"); }}, late{[&] { return worlds_of("1"); }};
  CHECK(first.result() == "invalid argument -1 timeout 1 fine fine ");
  CHECK(late.result() == "fine fine ");
}

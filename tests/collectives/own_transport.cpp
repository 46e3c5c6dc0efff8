// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives over the transport of examples/own_transport: bit for bit the results of any other transport.
#include "collectives/movements.hpp"
#include "collectives/pairs.hpp"
#include "collectives/reductions.hpp"
#include "support/catch.hpp"
#include "support/tcp_threads.hpp"

using namespace testing;

namespace {

struct over_tcp {
  using communicator = tcp::communicator;
  template <class F>
  static void run(int p, F f, std::size_t slot_bytes) {
    run_tcp_threads(p, f, {.timeout = std::chrono::seconds{60}, .piece_bytes = slot_bytes});
  }
};

}  // namespace

TEST_CASE("own transport: collectives have right results") {
  for (const int p : {1, 2, 3, 4, 5})
    for (const std::size_t piece : {usual_slot, small_slot})
      CHECK(on_ranks<over_tcp>(
                p,
                [&](auto& comm, complaints& wrong) {
                  const std::size_t most = piece == usual_slot ? (is_sanitized ? 20'003 : 100'003) : 3;
                  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1009}, most}) {
                    try_allreduce(comm, wrong, "automatic allreduce", n, kolo::automatic{});
                    try_allreduce(comm, wrong, "ring allreduce", n, kolo::ring{});
                    try_allreduce(comm, wrong, "recursive_doubling allreduce", n, kolo::recursive_doubling{});
                    try_reduce_scatter(comm, wrong, "automatic reduce_scatter", n, kolo::automatic{});
                    try_broadcast(comm, wrong, "automatic broadcast", n, kolo::automatic{});
                    try_scans(comm, wrong, "automatic scan", n, kolo::automatic{});
                    try_allgather(comm, wrong, "automatic allgather", n, kolo::automatic{});
                    try_alltoall(comm, wrong, "automatic alltoall", n, kolo::automatic{});
                    try_equal_alltoall(comm, wrong, "bruck alltoall", n, kolo::bruck{});  // it sends runs of memory
                    every_pair(comm, wrong, n);
                  }
                },
                piece) == "");
}

TEST_CASE("own transport: requests on two communicators, and a split while one is in flight") {
  CHECK(on_ranks<over_tcp>(3, [](auto& comm, complaints& wrong) {
          auto other = comm.split(0, -comm.rank());
          std::vector<int> x(300'000, 1), y(300'000, 2);
          auto first = kolo::start_allreduce(other, x, kolo::sum);
          if (comm.rank() == 0) first.wait();
          auto third = comm.split(0, 0);
          auto second = kolo::start_allreduce(third, y, kolo::sum);
          if (comm.rank() != 0) first.wait();
          second.wait();
          wrong.expect(x == std::vector<int>(x.size(), 3) && y == std::vector<int>(y.size(), 6), "sums of three ranks");
        }) == "");
}

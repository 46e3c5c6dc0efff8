// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every algorithm of the library in a call of a collective that it supports, and proofs of some.
#include "expect.hpp"

#include <kolo/kolo.hpp>
#include <kolo/schedule/combinators.hpp>
#include <kolo/schedule/same_bits.hpp>
#include <kolo/schedule/verify.hpp>

#include <cstddef>
#include <cstdio>
#include <vector>

// The library's tests prove its algorithms. A program may repeat such a proof, or prove its own algorithm: a wrong one does not compile.
static_assert(kolo::is_allreduce<kolo::swing::allreduce, 2, 8>);
static_assert(kolo::is_reduce_scatter<kolo::recursive_halving::reduce_scatter, 2, 8>);
static_assert(kolo::is_allgather<kolo::bruck::allgather, 2, 8>);
static_assert(kolo::is_broadcast<kolo::van_de_geijn::broadcast, 2, 8> && kolo::is_reduce<kolo::binomial::reduce, 2, 8>);
static_assert(kolo::is_gather<kolo::binomial::gather, 2, 8> && kolo::is_scatter<kolo::binomial::scatter, 2, 8>);
static_assert(kolo::is_alltoall<kolo::pairwise::alltoall, 2, 8> && kolo::is_barrier<kolo::dissemination::barrier, 2, 8>);
static_assert(kolo::is_scan<kolo::recursive_doubling::scan, 2, 8>);
static_assert(kolo::is_exclusive_scan<kolo::recursive_doubling::exclusive_scan, 2, 8>);
// A reversed reduce-scatter is an allgather; fold extends an algorithm for powers of two to any number of ranks.
static_assert(kolo::is_allgather<kolo::reverse<kolo::ring::reduce_scatter>, 2, 8>);
static_assert(kolo::is_allreduce<kolo::fold<kolo::recursive_doubling::butterfly>, 2, 8>);
static_assert(kolo::is_ordered<kolo::rabenseifner::allreduce>() && !kolo::is_ordered<kolo::ring::allreduce>());

using numbers = std::vector<int>;

void allreduces(auto& comm) {
  const auto gives_the_sum = [&](auto algorithm, const char* name) {
    numbers x(1000, comm.rank() + 1);
    kolo::allreduce(comm, x, kolo::sum, algorithm);
    expect(x == numbers(1000, 10), name);
  };
  gives_the_sum(kolo::automatic{}, "whatever is fastest");
  gives_the_sum(kolo::ring{}, "ring");
  gives_the_sum(kolo::recursive_doubling{}, "recursive_doubling");
  gives_the_sum(kolo::circulant{}, "circulant");
  gives_the_sum(kolo::one_shot{}, "one_shot");
  gives_the_sum(kolo::two_shot{}, "two_shot");
  gives_the_sum(kolo::recursive_multiplying{.radix = 4}, "recursive_multiplying");
  gives_the_sum(kolo::rabenseifner{}, "rabenseifner");
  gives_the_sum(kolo::swing{}, "swing");
  gives_the_sum(kolo::double_tree{.segments = 8}, "double_tree");
  gives_the_sum(kolo::two_level<>{.nodes = kolo::topology_of(comm)}, "two_level, with the nodes that this communicator has");
}

void others(auto& comm) {
  const int r = comm.rank(), p = comm.size();
  const auto q = std::size_t(p);
  numbers in(8, r + 1), block(2), all(8 * q), x(8, r), out(8);
  kolo::reduce_scatter(comm, in, block, kolo::sum, kolo::recursive_halving{});
  expect(block == numbers(2, 10), "recursive_halving");
  kolo::reduce_scatter(comm, in, block, kolo::max, kolo::pairwise{});
  expect(block == numbers(2, p), "pairwise");
  kolo::allgather(comm, in, all, kolo::bruck{});
  kolo::allgather(comm, in, all, kolo::neighbour_exchange{});  // an even number of ranks
  expect(all[0] == 1 && all.back() == p, "bruck, neighbour_exchange");
  kolo::broadcast(comm, x, 0, kolo::binomial{});
  kolo::broadcast(comm, x, 0, kolo::van_de_geijn{});
  kolo::broadcast(comm, x, 1, kolo::van_de_geijn_ring{});
  kolo::broadcast(comm, x, 2, kolo::circulant_pipelined{.segments = 4});
  expect(x == numbers(8, 0), "broadcasts of rank 0's values");
  kolo::alltoall(comm, in, out, kolo::bruck{});
  expect(out.front() == 1 && out.back() == p, "bruck's alltoall");
  kolo::scan(comm, in, out, kolo::product, kolo::chain{.segments = 2});
  expect(r != 3 || out == numbers(8, 24), "chain");
  kolo::barrier(comm, kolo::dissemination{.radix = 2});
}

int main() {
  const int status = kolo::shm::launch(
      4,
      [](auto& comm) {
        allreduces(comm);
        others(comm);
      },
      {.ranks_per_node = 2});
  if (status == 0) std::puts("Every named algorithm gave the result of its collective.");
  return status;
}

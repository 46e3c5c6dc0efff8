// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the schedules: each is verified for a few numbers of ranks.
#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/van_de_geijn.hpp>
#include <kolo/schedule/verify.hpp>

template <class... Schedules>
bool proven() {
  for (int p = 2; p <= 17; ++p)
    if (!((!supports(Schedules{}, p) || kolo::verify(Schedules{}, p)) && ...)) return false;
  return true;
}

int main() {
  using namespace kolo;
  const bool good = proven<
      ring::allreduce, recursive_doubling::allreduce, circulant::allreduce, one_shot::allreduce, two_shot::allreduce,
      circulant::reduce_scatter, recursive_doubling::allgather, circulant::allgather, van_de_geijn::broadcast, chain::broadcast,
      binomial::reduce, binomial::gather, binomial::scatter, one_shot::alltoall, chain::scan, chain::exclusive_scan,
      dissemination::barrier>();
  return good ? 0 : 1;
}

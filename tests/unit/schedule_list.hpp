// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every schedule of the library, and some that are made of them.
#pragma once

#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/van_de_geijn.hpp>

/// Calls f(name, schedule) for each.
template <class F>
void for_each_schedule(F f) {
  using namespace kolo;
  f("ring::reduce_scatter", ring::reduce_scatter{});
  f("ring::allgather", ring::allgather{});
  f("ring::allreduce", ring::allreduce{});
  f("recursive_doubling::allreduce", recursive_doubling::allreduce{});
  f("recursive_doubling::allgather", recursive_doubling::allgather{});
  f("circulant::reduce_scatter", circulant::reduce_scatter{});
  f("circulant::allgather", circulant::allgather{});
  f("circulant::allreduce", circulant::allreduce{});
  f("circulant::reduce", circulant::reduce{});
  f("binomial::reduce", binomial::reduce{});
  f("binomial::broadcast", binomial::broadcast{});
  f("binomial::gather", binomial::gather{});
  f("binomial::scatter", binomial::scatter{});
  f("van_de_geijn::broadcast", van_de_geijn::broadcast{});
  f("van_de_geijn_ring::broadcast", van_de_geijn_ring::broadcast{});
  f("chain::broadcast", chain::broadcast{});
  f("chain::scan", chain::scan{});
  f("chain::exclusive_scan", chain::exclusive_scan{});
  f("one_shot::allreduce", one_shot::allreduce{});
  f("one_shot::reduce_scatter", one_shot::reduce_scatter{});
  f("one_shot::allgather", one_shot::allgather{});
  f("one_shot::reduce", one_shot::reduce{});
  f("one_shot::broadcast", one_shot::broadcast{});
  f("one_shot::gather", one_shot::gather{});
  f("one_shot::scatter", one_shot::scatter{});
  f("one_shot::alltoall", one_shot::alltoall{});
  f("two_shot::allreduce", two_shot::allreduce{});
  f("two_shot::reduce", two_shot::reduce{});
  f("two_shot::broadcast", two_shot::broadcast{});
  f("dissemination::barrier", dissemination::barrier{});

  f("chain of 1 segment, broadcast", chain::broadcast{{.segments = 1}});
  f("chain of 3 segments, scan", chain::scan{{.segments = 3}});
  f("chain of 3 segments, exclusive_scan", chain::exclusive_scan{{.segments = 3}});
  f("fold of ring::allreduce", fold<ring::allreduce>{});
  f("fold of fold", fold<recursive_doubling::allreduce>{});
  f("forwarded to 1: binomial::reduce", forwarded<binomial::reduce>{1});
  f("forwarded to 3: two_shot::reduce", forwarded<two_shot::reduce>{3});
}

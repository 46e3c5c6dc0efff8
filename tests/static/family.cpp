// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which types are algorithms, and which schedule a family gives.
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/family.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/van_de_geijn.hpp>
#include <kolo/schedule/verify.hpp>

#include <concepts>
#include <type_traits>

using namespace kolo;

struct options {
  int segments = 1;
};
struct misnamed {
  using broadcast = ring::allreduce;
};
struct coarser : chain {};  // a type that derives from a family is a family
struct there_and_back : chain {
  using broadcast = reverse<chain::reduce>;
  using allreduce = sequence<chain::reduce, broadcast>;
};

static_assert(Algorithm<ring> && Algorithm<chain> && Algorithm<circulant> && Algorithm<recursive_doubling>);
static_assert(Algorithm<one_shot> && Algorithm<two_shot> && Algorithm<binomial> && Algorithm<van_de_geijn> &&
              Algorithm<dissemination>);
static_assert(Algorithm<ring::allreduce> && Algorithm<coarser>);
static_assert(!Algorithm<int> && !Algorithm<options> && !Algorithm<misnamed>);

static_assert(AlgorithmFor<ring, kind::allreduce> && AlgorithmFor<ring, kind::allgather> &&
              !AlgorithmFor<ring, kind::broadcast>);
static_assert(AlgorithmFor<ring::allreduce, kind::allreduce> && !AlgorithmFor<ring::allreduce, kind::allgather>);
static_assert(AlgorithmFor<one_shot, kind::alltoall> && AlgorithmFor<binomial, kind::scatter> &&
              AlgorithmFor<chain, kind::scan>);
static_assert(AlgorithmFor<chain, kind::exclusive_scan> && AlgorithmFor<dissemination, kind::barrier>);
static_assert(AlgorithmFor<one_shot, kind::gather> && AlgorithmFor<circulant, kind::reduce_scatter>);
static_assert(AlgorithmFor<two_shot, kind::reduce> && AlgorithmFor<van_de_geijn, kind::broadcast>);

static_assert(std::same_as<decltype(schedule_of<kind::allgather>(ring{})), ring::allgather>);
static_assert(std::same_as<decltype(schedule_of<kind::allreduce>(ring::allreduce{})), ring::allreduce>);
static_assert(schedule_of<kind::broadcast>(chain{.segments = 64}).blocks(2) == 64);
static_assert(schedule_of<kind::broadcast>(coarser{{.segments = 2}}).blocks(2) == 2);
static_assert(schedule_of<kind::scan>(chain{}).blocks(2) == 16);
static_assert(schedule_of<kind::broadcast>(chain::broadcast{{.segments = 5}}).blocks(2) == 5);
static_assert(!supports(schedule_of<kind::broadcast>(chain{.segments = 0}), 4));
static_assert(schedule_of<kind::broadcast>(there_and_back{{.segments = 5}}).blocks(2) == 5);
static_assert(verify(schedule_of<kind::allreduce>(there_and_back{{.segments = 5}}), 3));
static_assert(std::is_empty_v<ring::allreduce> && std::is_empty_v<recursive_doubling::allreduce>);

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every algorithm that only moves data is proven at compile time, for every number of ranks up to 16.
#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/van_de_geijn.hpp>
#include <kolo/schedule/verify.hpp>

using namespace kolo;

static_assert(is_allgather<ring::allgather>);
static_assert(is_allgather<recursive_doubling::allgather>);
static_assert(is_allgather<circulant::allgather>);
static_assert(is_allgather<one_shot::allgather>);

static_assert(is_broadcast<binomial::broadcast>);
static_assert(is_broadcast<van_de_geijn::broadcast>);
static_assert(is_broadcast<van_de_geijn_ring::broadcast>);
static_assert(is_broadcast<chain::broadcast>);
static_assert(is_broadcast<one_shot::broadcast>);
static_assert(is_broadcast<two_shot::broadcast>);
static_assert(verify(chain::broadcast{{.segments = 3}}, 7));

static_assert(is_gather<binomial::gather> && is_gather<one_shot::gather>);
static_assert(is_scatter<binomial::scatter> && is_scatter<one_shot::scatter>);
static_assert(is_alltoall<one_shot::alltoall>);
static_assert(is_barrier<dissemination::barrier>);

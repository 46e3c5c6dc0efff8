// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every algorithm of exchanges, and of two levels, is proven at compile time for every number of ranks up to 16.
#include <kolo/schedule/bruck.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/double_tree.hpp>
#include <kolo/schedule/neighbour_exchange.hpp>
#include <kolo/schedule/pairwise.hpp>
#include <kolo/schedule/rabenseifner.hpp>
#include <kolo/schedule/recursive_halving.hpp>
#include <kolo/schedule/recursive_multiplying.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/swing.hpp>
#include <kolo/schedule/two_level.hpp>
#include <kolo/schedule/verify.hpp>

using namespace kolo;

static_assert(is_allreduce<recursive_multiplying::allreduce>);
static_assert(is_allreduce<rabenseifner::allreduce>);
static_assert(is_allreduce<swing::allreduce>);
static_assert(is_allreduce<two_level<>::allreduce>);
static_assert(verify(recursive_multiplying::allreduce{recursive_multiplying{.radix = 3}}, 11));

static_assert(is_reduce_scatter<recursive_halving::reduce_scatter>);
static_assert(is_reduce_scatter<pairwise::reduce_scatter>);
static_assert(is_allgather<reverse<recursive_halving::reduce_scatter>>);
static_assert(is_allgather<bruck::allgather>);
static_assert(is_allgather<neighbour_exchange::allgather>);
static_assert(is_alltoall<pairwise::alltoall>);
static_assert(is_alltoall<bruck::alltoall>);

// Nodes of one size, of two, and of any; with any algorithms inside and between them.
using tree = sequence<binomial::reduce, binomial::broadcast>;
static_assert(is_allreduce<tree>);
static_assert(verify(two_level<two_shot, ring>::allreduce{{.nodes = {.ranks_per_node = 4}}}, 12));
static_assert(verify(two_level<two_shot, recursive_multiplying>::allreduce{{.nodes = {.ranks_per_node = 2}}}, 12));
static_assert(verify(two_level<ring, rabenseifner>::allreduce{{.nodes = {.ranks_per_node = 5}}}, 13));
static_assert(verify(two_level<recursive_halving, ring>::allreduce{{.nodes = {.sizes = {2, 5, 3}}}}, 10));
static_assert(!supports(two_level<>::allreduce{{.nodes = {.sizes = {2, 5, 3}}}}, 11));
static_assert(is_broadcast<two_level<>::broadcast> && is_reduce<two_level<>::reduce> &&
              is_barrier<two_level<>::barrier>);
static_assert(is_allgather<two_level<>::allgather, 2, 12> && is_reduce_scatter<two_level<>::reduce_scatter, 2, 9>);
static_assert(is_gather<two_level<>::gather> && is_scatter<two_level<>::scatter> &&
              is_alltoall<two_level<>::alltoall, 2, 12>);
static_assert(verify(two_level<two_shot, binomial>::reduce{{.nodes = {.ranks_per_node = 3}}, 7}, 9));
static_assert(verify(two_level<ring, double_tree>::broadcast{{.nodes = {.sizes = {2, 5, 3}}, .lanes = 1}, 4}, 10));

// Schedules that may be used with an operator that does not commute.
static_assert(is_ordered<recursive_multiplying::allreduce>() && is_ordered<rabenseifner::allreduce>() &&
              is_ordered<tree>());
static_assert(is_ordered<two_level<two_shot, recursive_multiplying>::allreduce>() &&
              is_ordered<two_level<two_shot, binomial>::reduce>());
static_assert(!is_ordered<swing::allreduce>() && !is_ordered<two_level<>::allreduce>() &&
              !is_ordered<two_level<two_shot, ring>::allreduce>());
static_assert(!is_ordered<recursive_halving::reduce_scatter>() && !is_ordered<pairwise::reduce_scatter>());

// Ranges of peers modulo a smaller number: 13 differs from 1, 5, 9 in the digit of weight 4.
constexpr peer_range digit{13, 3, 4, 4};
static_assert(digit.at(0, 32) == 13 && digit.at(1, 32) == 1 && digit.at(2, 32) == 5 && digit.lowest(32) == 1);
static_assert(digit.index_of(5, 32) == 2 && digit.index_of(9, 32) == nobody && digit.index_of(29, 32) == nobody &&
              digit.index_of(14, 32) == nobody);
static_assert(digit.is_sound(16) && !digit.is_sound(12) && !peer_range{1, 5}.is_sound(4) &&
              !peer_range{4, 1}.is_sound(4));

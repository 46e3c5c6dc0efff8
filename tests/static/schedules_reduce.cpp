// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every algorithm that combines, except scans, is proven at compile time, for every number of ranks up to 16.
#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/verify.hpp>

using namespace kolo;

static_assert(is_allreduce<ring::allreduce>);
static_assert(is_allreduce<recursive_doubling::allreduce>);
static_assert(is_allreduce<circulant::allreduce>);
static_assert(is_allreduce<one_shot::allreduce>);
static_assert(is_allreduce<two_shot::allreduce>);

static_assert(is_reduce_scatter<ring::reduce_scatter>);
static_assert(is_reduce_scatter<circulant::reduce_scatter>);
static_assert(is_reduce_scatter<one_shot::reduce_scatter>);

static_assert(is_reduce<binomial::reduce>);
static_assert(is_reduce<circulant::reduce>);
static_assert(is_reduce<one_shot::reduce>);
static_assert(is_reduce<two_shot::reduce>);

// A root other than 0, in the order of the ranks.
static_assert(verify(forwarded<binomial::reduce>{5}, 7));
static_assert(!supports(forwarded<binomial::reduce>{5}, 5) && supports(forwarded<binomial::reduce>{4}, 5));

// Schedules that may be used with an operator that does not commute.
static_assert(is_ordered<recursive_doubling::allreduce>() && is_ordered<one_shot::allreduce>() &&
              is_ordered<two_shot::allreduce>());
static_assert(is_ordered<binomial::reduce>() && is_ordered<two_shot::reduce>() &&
              is_ordered<forwarded<one_shot::reduce>>());
static_assert(!is_ordered<ring::allreduce>() && !is_ordered<circulant::allreduce>() &&
              !is_ordered<circulant::reduce>());

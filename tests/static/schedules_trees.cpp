// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trees, pipelines and doubling scans are proven at compile time, for every number of ranks up to 16.
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/circulant_pipelined.hpp>
#include <kolo/schedule/combinators.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/double_tree.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/verify.hpp>

using namespace kolo;

namespace {

/// S in 5 segments: one tree has more of them than the other.
template <class S>
struct in_five : S {
  constexpr in_five() : S{{.segments = 5}} {}
};

template <int Radix>
struct barrier_of : dissemination::barrier {
  constexpr barrier_of() : dissemination::barrier{{.radix = Radix}} {}
};

}  // namespace

static_assert(is_broadcast<in_five<double_tree::broadcast>> && is_broadcast<in_five<circulant_pipelined::broadcast>>);
static_assert(is_reduce<in_five<double_tree::reduce>> && is_reduce<in_five<circulant_pipelined::reduce>>);
static_assert(is_reduce<in_five<chain::reduce>>);
static_assert(is_allreduce<in_five<double_tree::allreduce>>);
static_assert(verify(double_tree::allreduce{}, 7) && verify(circulant_pipelined::reduce{}, 7) &&
              verify(chain::reduce{}, 7));
static_assert(verify(double_tree::broadcast{{.segments = 1}}, 9) &&
              verify(circulant_pipelined::broadcast{{.segments = 1}}, 9));

// A root other than 0, in the order of the ranks.
static_assert(verify(forwarded<double_tree::reduce>{5, {}}, 7) && verify(forwarded<chain::reduce>{2, {}}, 3));

static_assert(is_scan<recursive_doubling::scan> && is_exclusive_scan<recursive_doubling::exclusive_scan>);

static_assert(is_barrier<barrier_of<3>> && is_barrier<barrier_of<4>> && is_barrier<barrier_of<5>>);
static_assert(!supports(dissemination::barrier{{.radix = 1}}, 4) && !supports(dissemination::barrier{{.radix = 6}}, 4));

// Schedules that may be used with an operator that does not commute.
static_assert(is_ordered<double_tree::allreduce>() && is_ordered<double_tree::reduce>() && is_ordered<chain::reduce>());
static_assert(!is_ordered<circulant_pipelined::reduce>());

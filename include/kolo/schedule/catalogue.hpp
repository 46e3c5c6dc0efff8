// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All algorithms of the library by name, for proofs, pictures, tables and command lines to iterate over. Opt-in.
#pragma once

#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/bruck.hpp>
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/circulant_pipelined.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/double_tree.hpp>
#include <kolo/schedule/family.hpp>
#include <kolo/schedule/neighbour_exchange.hpp>
#include <kolo/schedule/pairwise.hpp>
#include <kolo/schedule/rabenseifner.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/recursive_halving.hpp>
#include <kolo/schedule/recursive_multiplying.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/swing.hpp>
#include <kolo/schedule/two_level.hpp>
#include <kolo/schedule/van_de_geijn.hpp>

namespace kolo::inline KOLO_ABI {

/// Calls see(name, family) for every family of schedules; a family with parameters has its defaults.
constexpr void for_each_family(auto&& see) {
  see("ring", ring{});
  see("recursive_doubling", recursive_doubling{});
  see("circulant", circulant{});
  see("one_shot", one_shot{});
  see("two_shot", two_shot{});
  see("binomial", binomial{});
  see("van_de_geijn", van_de_geijn{});
  see("van_de_geijn_ring", van_de_geijn_ring{});
  see("chain", chain{});
  see("double_tree", double_tree{});
  see("circulant_pipelined", circulant_pipelined{});
  see("dissemination", dissemination{});
  see("recursive_multiplying", recursive_multiplying{});
  see("recursive_halving", recursive_halving{});
  see("rabenseifner", rabenseifner{});
  see("swing", swing{});
  see("pairwise", pairwise{});
  see("bruck", bruck{});
  see("neighbour_exchange", neighbour_exchange{});
  see("two_level", two_level<>{});
}

/// Calls see(schedule) for every collective that the family has a schedule for.
template <class A, class F>
constexpr void for_each_schedule_of(const A& family, F&& see) {
  detail::schedule::for_each_kind([&]<kind K>() {
    if constexpr (detail::schedule::FamilyFor<A, K>) see(schedule_of<K>(family));
  });
}

}  // namespace kolo::inline KOLO_ABI

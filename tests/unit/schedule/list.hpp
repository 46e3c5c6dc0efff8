// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All schedules of the library, and some that are composed of them.
#pragma once

#include <kolo/schedule/catalogue.hpp>

#include <string>

/// Calls f(name, schedule) for each; `name` is valid until f returns.
template <class F>
void for_each_schedule(F f) {
  using namespace kolo;
  for_each_family([&](const char* family, const auto& algorithm) {
    for_each_schedule_of(algorithm, [&](const auto& schedule) {
      f((std::string{family} + "::" + name(schedule.collective)).c_str(), schedule);
    });
  });

  f("chain of 1 segment, broadcast", chain::broadcast{{.segments = 1}});
  f("chain of 3 segments, scan", chain::scan{{.segments = 3}});
  f("chain of 3 segments, exclusive_scan", chain::exclusive_scan{{.segments = 3}});
  f("chain of 3 segments, reduce", chain::reduce{{.segments = 3}});
  f("double_tree of 1 segment, reduce", double_tree::reduce{{.segments = 1}});
  f("double_tree of 3 segments, allreduce", double_tree::allreduce{{.segments = 3}});
  f("circulant_pipelined of 1 segment, broadcast", circulant_pipelined::broadcast{{.segments = 1}});
  f("circulant_pipelined of 3 segments, reduce", circulant_pipelined::reduce{{.segments = 3}});
  f("dissemination of radix 3, barrier", dissemination::barrier{{.radix = 3}});
  f("dissemination of radix 5, barrier", dissemination::barrier{{.radix = 5}});
  f("fold of ring::allreduce", fold<ring::allreduce>{});
  f("fold of fold", fold<recursive_doubling::allreduce>{});
  f("fold of ring::reduce_scatter", fold<ring::reduce_scatter>{});
  f("reverse of recursive_halving", reverse<recursive_halving::reduce_scatter>{});
  f("recursive_multiplying by 7", schedule_of<kind::allreduce>(recursive_multiplying{.radix = 7}));
  f("binomial tree there and back", sequence<binomial::reduce, binomial::broadcast>{});
  f("two_level on nodes of 4",
    schedule_of<kind::allreduce>(two_level<two_shot, recursive_multiplying>{.nodes = {.ranks_per_node = 4}}));
  f("two_level on nodes of 3, the last smaller",
    schedule_of<kind::allreduce>(two_level<ring, rabenseifner>{.nodes = {.ranks_per_node = 3}}));
  f("two_level on one lane, broadcast from 6", two_level<>::broadcast{{.nodes = {.ranks_per_node = 4}, .lanes = 1}, 6});
  f("two_level in order, reduce to 5",
    two_level<two_shot, binomial>::reduce{{.nodes = {.ranks_per_node = 4}, .lanes = 2}, 5});
  f("two_level on two lanes, allgather", two_level<>::allgather{{.nodes = {.ranks_per_node = 5}, .lanes = 2}});
  f("two_level of one_shot, reduce_scatter",
    two_level<one_shot, one_shot>::reduce_scatter{{.nodes = {.ranks_per_node = 4}}});
  f("two_level of one_shot, alltoall", two_level<one_shot, one_shot>::alltoall{{.nodes = {.ranks_per_node = 4}}});
  f("two_level, scatter from 7", two_level<>::scatter{{.nodes = {.ranks_per_node = 5}}, 7});
  f("forwarded to 1: binomial::reduce", forwarded<binomial::reduce>{1});
  f("forwarded to 3: two_shot::reduce", forwarded<two_shot::reduce>{3});
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each collective that combines, by each algorithm that has it: on one communicator, for one count.
#pragma once

#include "collectives/any_schedule.hpp"
#include "collectives/reductions.hpp"

namespace testing {

template <class C>
void every_allreduce(C& comm, complaints& wrong, std::size_t n) {
  const auto with = [&](const char* name, const auto& algorithm) {
    with_algorithm<kolo::kind::allreduce>(comm, algorithm,
                                          [&](const auto& a) { try_allreduce(comm, wrong, name, n, a); });
  };
  with("automatic allreduce", kolo::automatic{});
  with("ring allreduce", kolo::ring{});
  with("recursive_doubling allreduce", kolo::recursive_doubling{});
  with("circulant allreduce", kolo::circulant{});
  with("one_shot allreduce", kolo::one_shot{});
  with("two_shot allreduce", kolo::two_shot{});
  with("recursive_multiplying allreduce", kolo::recursive_multiplying{});
  with("rabenseifner allreduce", kolo::rabenseifner{});
  with("swing allreduce", kolo::swing{});
  with("two_level allreduce", kolo::two_level<>{});
  with("two_level allreduce on nodes of 3",
       kolo::two_level<kolo::ring, kolo::rabenseifner>{.nodes = {.ranks_per_node = 3}});
  with("allreduce by a tree", kolo::sequence<kolo::binomial::reduce, kolo::binomial::broadcast>{});
  if (comm.size() % 4 == 0)
    with("two_level allreduce on nodes of 4",
         kolo::two_level<kolo::two_shot, kolo::one_shot>{.nodes = {.ranks_per_node = 4}});
  with("my_ring allreduce", my_ring{});
}

template <class C>
void every_reduce_scatter(C& comm, complaints& wrong, std::size_t n) {
  const auto with = [&](const char* name, const auto& algorithm) {
    with_algorithm<kolo::kind::reduce_scatter>(comm, algorithm,
                                               [&](const auto& a) { try_reduce_scatter(comm, wrong, name, n, a); });
  };
  with("automatic reduce_scatter", kolo::automatic{});
  with("ring reduce_scatter", kolo::ring{});
  with("circulant reduce_scatter", kolo::circulant{});
  with("one_shot reduce_scatter", kolo::one_shot{});
  with("recursive_halving reduce_scatter", kolo::recursive_halving{});
  with("pairwise reduce_scatter", kolo::pairwise{});
}

template <class C>
void every_reduce(C& comm, complaints& wrong, std::size_t n) {
  const auto with = [&](const char* name, const auto& algorithm) {
    with_algorithm<kolo::kind::reduce>(comm, algorithm, [&](const auto& a) { try_reduce(comm, wrong, name, n, a); });
  };
  with("automatic reduce", kolo::automatic{});
  with("binomial reduce", kolo::binomial{});
  with("circulant reduce", kolo::circulant{});
  with("one_shot reduce", kolo::one_shot{});
  with("two_shot reduce", kolo::two_shot{});
}

template <class C>
void every_scan(C& comm, complaints& wrong, std::size_t n) {
  try_scans(comm, wrong, "automatic scan", n, kolo::automatic{});
  try_scans(comm, wrong, "scan in 5 segments", n, kolo::chain{.segments = 5});
}

}  // namespace testing

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective that combines, by every algorithm that can do it: on one communicator, for one count.
#pragma once

#include "collectives/reductions.hpp"

namespace testing {

template <class C>
void every_allreduce(C& comm, complaints& wrong, std::size_t n) {
  try_allreduce(comm, wrong, "automatic allreduce", n, kolo::automatic{});
  try_allreduce(comm, wrong, "ring allreduce", n, kolo::ring{});
  try_allreduce(comm, wrong, "recursive_doubling allreduce", n, kolo::recursive_doubling{});
  try_allreduce(comm, wrong, "circulant allreduce", n, kolo::circulant{});
  try_allreduce(comm, wrong, "one_shot allreduce", n, kolo::one_shot{});
  try_allreduce(comm, wrong, "two_shot allreduce", n, kolo::two_shot{});
  try_allreduce(comm, wrong, "recursive_multiplying allreduce", n, kolo::recursive_multiplying{});
  try_allreduce(comm, wrong, "rabenseifner allreduce", n, kolo::rabenseifner{});
  try_allreduce(comm, wrong, "swing allreduce", n, kolo::swing{});
  try_allreduce(comm, wrong, "two_level allreduce", n, kolo::two_level<>{});
  try_allreduce(comm, wrong, "two_level allreduce on nodes of 3", n,
                kolo::two_level<kolo::ring, kolo::rabenseifner>{.nodes = {.ranks_per_node = 3}});
  try_allreduce(comm, wrong, "allreduce by a tree", n,
                kolo::sequence<kolo::binomial::reduce, kolo::binomial::broadcast>{});
  if (comm.size() % 4 == 0)
    try_allreduce(comm, wrong, "two_level allreduce on nodes of 4", n,
                  kolo::two_level<kolo::two_shot, kolo::one_shot>{.nodes = {.ranks_per_node = 4}});
  try_allreduce(comm, wrong, "my_ring allreduce", n, my_ring{});
}

template <class C>
void every_reduce_scatter(C& comm, complaints& wrong, std::size_t n) {
  try_reduce_scatter(comm, wrong, "automatic reduce_scatter", n, kolo::automatic{});
  try_reduce_scatter(comm, wrong, "ring reduce_scatter", n, kolo::ring{});
  try_reduce_scatter(comm, wrong, "circulant reduce_scatter", n, kolo::circulant{});
  try_reduce_scatter(comm, wrong, "one_shot reduce_scatter", n, kolo::one_shot{});
  try_reduce_scatter(comm, wrong, "recursive_halving reduce_scatter", n, kolo::recursive_halving{});
  try_reduce_scatter(comm, wrong, "pairwise reduce_scatter", n, kolo::pairwise{});
}

template <class C>
void every_reduce(C& comm, complaints& wrong, std::size_t n) {
  try_reduce(comm, wrong, "automatic reduce", n, kolo::automatic{});
  try_reduce(comm, wrong, "binomial reduce", n, kolo::binomial{});
  try_reduce(comm, wrong, "circulant reduce", n, kolo::circulant{});
  try_reduce(comm, wrong, "one_shot reduce", n, kolo::one_shot{});
  try_reduce(comm, wrong, "two_shot reduce", n, kolo::two_shot{});
}

template <class C>
void every_scan(C& comm, complaints& wrong, std::size_t n) {
  try_scans(comm, wrong, "automatic scan", n, kolo::automatic{});
  try_scans(comm, wrong, "scan in 5 segments", n, kolo::chain{.segments = 5});
}

}  // namespace testing

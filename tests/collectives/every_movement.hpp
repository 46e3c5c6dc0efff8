// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective that only moves elements, by every algorithm that can do it: on one communicator, for one count.
#pragma once

#include "collectives/movements.hpp"

namespace testing {

template <class C>
void every_broadcast(C& comm, complaints& wrong, std::size_t n) {
  try_broadcast(comm, wrong, "automatic broadcast", n, kolo::automatic{});
  try_broadcast(comm, wrong, "binomial broadcast", n, kolo::binomial{});
  try_broadcast(comm, wrong, "broadcast in 3 segments", n, kolo::chain{.segments = 3});
  try_broadcast(comm, wrong, "van de Geijn's broadcast", n, kolo::van_de_geijn{});
  try_broadcast(comm, wrong, "van de Geijn's broadcast on a ring", n, kolo::van_de_geijn_ring{});
  try_broadcast(comm, wrong, "one_shot broadcast", n, kolo::one_shot{});
  try_broadcast(comm, wrong, "two_shot broadcast", n, kolo::two_shot{});
}

template <class C>
void every_allgather(C& comm, complaints& wrong, std::size_t n) {
  try_allgather(comm, wrong, "automatic allgather", n, kolo::automatic{});
  try_allgather(comm, wrong, "ring allgather", n, kolo::ring{});
  try_allgather(comm, wrong, "circulant allgather", n, kolo::circulant{});
  try_allgather(comm, wrong, "one_shot allgather", n, kolo::one_shot{});
  try_allgather(comm, wrong, "bruck allgather", n, kolo::bruck{});
  if (kolo::neighbour::allgather::supports(comm.size()))
    try_allgather(comm, wrong, "neighbour allgather", n, kolo::neighbour{});
  if (kolo::recursive_doubling::allgather::supports(comm.size()))
    try_allgather(comm, wrong, "recursive_doubling allgather", n, kolo::recursive_doubling{});
}

template <class C>
void every_gather_and_scatter(C& comm, complaints& wrong, std::size_t n) {
  try_gather_and_scatter(comm, wrong, "automatic", n, kolo::automatic{});
  try_gather_and_scatter(comm, wrong, "binomial", n, kolo::binomial{});
  try_gather_and_scatter(comm, wrong, "one_shot", n, kolo::one_shot{});
}

template <class C>
void every_alltoall(C& comm, complaints& wrong, std::size_t n) {
  try_alltoall(comm, wrong, "automatic alltoall", n, kolo::automatic{});
  try_alltoall(comm, wrong, "one_shot alltoall", n, kolo::one_shot{});
  try_alltoall(comm, wrong, "pairwise alltoall", n, kolo::pairwise{});
  try_equal_alltoall(comm, wrong, "bruck alltoall", n, kolo::bruck{});
}

}  // namespace testing

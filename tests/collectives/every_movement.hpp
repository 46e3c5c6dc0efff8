// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each collective that moves elements without combining them, by each algorithm that has it: on one communicator, for one count.
#pragma once

#include "collectives/any_schedule.hpp"
#include "collectives/movements.hpp"

namespace testing {

template <class C>
void every_broadcast(C& comm, complaints& wrong, std::size_t n) {
  const auto with = [&](const char* name, const auto& algorithm) {
    with_algorithm<kolo::kind::broadcast>(comm, algorithm,
                                          [&](const auto& a) { try_broadcast(comm, wrong, name, n, a); });
  };
  with("automatic broadcast", kolo::automatic{});
  with("binomial broadcast", kolo::binomial{});
  with("broadcast in 3 segments", kolo::chain{.segments = 3});
  with("van de Geijn's broadcast", kolo::van_de_geijn{});
  with("van de Geijn's broadcast on a ring", kolo::van_de_geijn_ring{});
  with("one_shot broadcast", kolo::one_shot{});
  with("two_shot broadcast", kolo::two_shot{});
}

template <class C>
void every_allgather(C& comm, complaints& wrong, std::size_t n) {
  const auto with = [&](const char* name, const auto& algorithm) {
    with_algorithm<kolo::kind::allgather>(comm, algorithm,
                                          [&](const auto& a) { try_allgather(comm, wrong, name, n, a); });
  };
  with("automatic allgather", kolo::automatic{});
  with("ring allgather", kolo::ring{});
  with("circulant allgather", kolo::circulant{});
  with("one_shot allgather", kolo::one_shot{});
  with("bruck allgather", kolo::bruck{});
  if (kolo::neighbour_exchange::allgather::supports(comm.size()))
    with("neighbour_exchange allgather", kolo::neighbour_exchange{});
  if (kolo::recursive_doubling::allgather::supports(comm.size()))
    with("recursive_doubling allgather", kolo::recursive_doubling{});
}

template <class C>
void every_gather_and_scatter(C& comm, complaints& wrong, std::size_t n) {
  try_gather_and_scatter(comm, wrong, "automatic", n, kolo::automatic{});
  try_gather_and_scatter(comm, wrong, "binomial", n, kolo::binomial{});
  try_gather_and_scatter(comm, wrong, "one_shot", n, kolo::one_shot{});
}

template <class C>
void every_alltoall(C& comm, complaints& wrong, std::size_t n) {
  const auto with = [&](const char* name, const auto& algorithm) {
    with_algorithm<kolo::kind::alltoall>(comm, algorithm,
                                         [&](const auto& a) { try_alltoall(comm, wrong, name, n, a); });
  };
  with("automatic alltoall", kolo::automatic{});
  with("one_shot alltoall", kolo::one_shot{});
  with("pairwise alltoall", kolo::pairwise{});
  try_equal_alltoall(comm, wrong, "bruck alltoall", n, kolo::bruck{});
}

}  // namespace testing

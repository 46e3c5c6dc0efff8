// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective, by every algorithm, over one transport for device views: runs tests/collectives.
#pragma once

#include "collectives/every_movement.hpp"
#include "collectives/every_reduction.hpp"
#include "collectives/pairs.hpp"
#include "cuda/every_size.hpp"

namespace testing {

template <class Over>
void what_combines() {
  for_every_size<Over>([](auto& comm, complaints& wrong, std::size_t n) {
    every_allreduce(comm, wrong, n);
    every_reduce(comm, wrong, n);
    every_reduce_scatter(comm, wrong, n);
    every_scan(comm, wrong, n);
  });
}
template <class Over>
void what_moves() {
  for_every_size<Over>([](auto& comm, complaints& wrong, std::size_t n) {
    every_broadcast(comm, wrong, n);
    every_allgather(comm, wrong, n);
    every_gather_and_scatter(comm, wrong, n);
    every_alltoall(comm, wrong, n);
    kolo::barrier(comm);
  });
}
template <class Over>
void what_is_between_two() {
  for_every_size<Over>([](auto& comm, complaints& wrong, std::size_t n) { every_pair(comm, wrong, n); }, {2, 3});
}

}  // namespace testing

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One collective over MPI for the selected counts, with the default piece size and tiny pieces.
#pragma once

#include "mpi/world.hpp"

namespace testing {

/// When oversubscribed every message costs a context switch: then only one count, which covers what few ranks do not.
template <class F>
void every_size(mpi_world& world, const char* name, F each) {
  const auto with = [&](const kolo::mpi::options& o, const std::vector<std::size_t>& counts) {
    world.run(name, [&](complaints& wrong) {
      kolo::mpi::communicator comm{MPI_COMM_WORLD, o};
      for (const auto n : counts) each(comm, wrong, n);
    });
  };
  const bool is_oversubscribed = world.size() > 4;
  with({.timeout = std::chrono::seconds{60}},
       is_oversubscribed ? std::vector<std::size_t>{101} : counts_for(world.size()));
  if (is_oversubscribed) return;
  with({.timeout = std::chrono::seconds{60}, .piece_bytes = small_slot, .pieces_at_once = 1}, {211});
  with({.timeout = std::chrono::seconds{60}, .piece_bytes = small_slot, .pieces_at_once = 2}, {211});
}

}  // namespace testing

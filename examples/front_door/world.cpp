// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joins the ranks that mpiexec, srun or torchrun started, without MPI.
//
//     mpiexec -n 4 ./world
//
// Each process reads rank and size from its environment. Without a launcher the program starts the ranks itself.
#include "expect.hpp"
#include "under_launcher.hpp"

#include <kolo/kolo.hpp>

#include <chrono>
#include <cstdio>
#include <vector>

using namespace std::chrono_literals;

/// Returns the number of ranks.
int meet() {
  // clang-format off
auto comm = kolo::shm::world();                   // rank and size from the environment; size 1 when there is none
auto patient = kolo::shm::world({.timeout = 30s});
  // clang-format on

  std::vector<int> ranks(std::size_t(comm.size()));
  kolo::allgather(comm, std::vector{comm.rank()}, ranks);
  for (int r = 0; r < comm.size(); ++r) expect(ranks[std::size_t(r)] == r, "allgather puts rank r's part at place r");
  expect(patient.rank() == comm.rank() && patient.size() == comm.size(), "a second world has the same ranks");
  kolo::barrier(patient);

  if (comm.rank() == 0) std::printf("%d process%s joined.\n", comm.size(), comm.size() == 1 ? "" : "es");
  return comm.size();
}

int main() {
  if (meet() > 1) return 0;
  return under_launcher(4, [] { expect(meet() == 4, "as many ranks as the launcher announced"); });
}

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The soak under mpiexec, on all its ranks, with arrivals late and out of order: mpiexec -n 3 PROGRAM [--seconds 60] [--seed N] | --epoch N.
#include <kolo/mpi/mpi.hpp>

#include <chrono>
#include <cstdio>
#include <exception>

#include "soak/epoch.hpp"
#include "soak/orders.hpp"

namespace {

/// The value of rank 0.
template <class T>
T agreed(T mine) {
  MPI_Bcast(&mine, sizeof mine, MPI_CHAR, 0, MPI_COMM_WORLD);
  return mine;
}

void run(std::uint64_t seed) {
  const soak::outline o{seed};
  const kolo::mpi::options how{.timeout = std::chrono::seconds{60}, .piece_bytes = o.slot_bytes};
  kolo::communicator<kolo::faulty<kolo::mpi::transport>> comm{MPI_COMM_WORLD, how};
  soak::play(comm, o);
}

void run_all(const soak::orders& told, int rank) {
  using clock = std::chrono::steady_clock;
  const auto seed = agreed(told.seed);
  if (rank == 0)
    std::printf("soak over MPI --seconds %.0f --seed %llu\n", told.seconds, static_cast<unsigned long long>(seed)),
        std::fflush(stdout);
  long epochs = 0, steps = 0;
  for (const auto end = clock::now() + std::chrono::duration<double>(told.seconds); agreed(clock::now() < end);
       ++epochs) {
    const auto epoch = soak::mixed(seed, static_cast<std::uint64_t>(epochs));
    run(epoch);
    steps += soak::outline{epoch}.steps;
  }
  if (rank == 0) std::printf("%ld epochs, %ld steps, nothing wrong\n", epochs, steps);
}

}  // namespace

int main(int argc, char** argv) {
  const kolo::mpi::environment env{argc, argv};
  const soak::orders told{argc, argv};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    if (told.epoch) run(*told.epoch);
    else run_all(told, rank);
  } catch (const std::exception& e) {
    std::printf("FAILED: %s\n", e.what());
    std::fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

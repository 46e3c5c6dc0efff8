// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same gradients over MPI: interleaves the variants of the exchange, and MPI_Allreduce called by hand.
#include "by_hand.hpp"
#include "compare.hpp"

#include <kolo/mpi/mpi.hpp>

#include <unistd.h>

#include <cstdio>
#include <exception>

namespace synthetic {
namespace {

template <class Comm>
int compare_with_hand(Comm&& comm, const settings& s) {
  return compare(comm, s, [&](auto& all) {
    if (s.by_hand) all.add(by_hand(all, comm, s));
  });
}

int compare_over_mpi(const settings& s) {
  if (s.transport == "routed") return compare_with_hand(kolo::mpi::routed_communicator{MPI_COMM_WORLD}, s);
  return compare_with_hand(kolo::mpi::communicator{MPI_COMM_WORLD}, s);
}

}  // namespace
}  // namespace synthetic

int main(int argc, char** argv) {
  const auto settings = synthetic::parse(argc, argv, true);  // a wrong command line ends the program before MPI_Init
  const kolo::mpi::environment env{argc, argv, MPI_THREAD_SERIALIZED};  // for helper threads
  int status = 1;
  try {
    status = synthetic::compare_over_mpi(settings);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "synthetic: %s\n", e.what());
  }
  if (!settings.finalizes) ::_exit(status);
  return status;
}
